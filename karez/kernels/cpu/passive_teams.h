// How threads of a team wait for each other: by spinning, which is quick, or asleep, which leaves the core to others.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// While one lives, all teams of this process wait passively: a thread spins for some 100 rounds and then sleeps. GNU
// OpenMP reads its wait policy once, when it is loaded, but spins that little whenever there are more OpenMP threads
// than cpus (GOMP_SPINCOUNT in its manual). So this holds an idle team with a thread for each cpu, and one more.
class PassiveTeams {
 public:
  explicit PassiveTeams(int cpus);  // that the process may use
  ~PassiveTeams();
  PassiveTeams(const PassiveTeams&) = delete;
  PassiveTeams& operator=(const PassiveTeams&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false, stop_ = false;
  std::thread holder_;  // last: it uses the others
};

}  // namespace karez::kernels
