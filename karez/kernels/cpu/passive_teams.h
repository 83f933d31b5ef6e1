// Controls how threads of a team wait for each other: by spinning, which is fast, or by sleeping, which frees the core.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// While an object of this class exists, all teams of this process wait passively: a thread spins about 100 times and
// then sleeps. GNU OpenMP reads its wait policy only once, when it is loaded. But if there are more OpenMP threads than
// CPUs, they spin only about 100 times under any policy (see GOMP_SPINCOUNT in the manual of GNU OpenMP). So the object
// owns an idle team with one thread more than there are CPUs.
class PassiveTeams {
 public:
  explicit PassiveTeams(int cpus);  // the number of CPUs that the process may use
  ~PassiveTeams();
  PassiveTeams(const PassiveTeams&) = delete;
  PassiveTeams& operator=(const PassiveTeams&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false, stop_ = false;
  std::thread owner_;  // the last member, because the thread uses the others
};

}  // namespace karez::kernels
