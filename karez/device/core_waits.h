// How long the threads of this process waited for a core, by which a program that computes on the same cores is
// noticed, whichever it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "karez/device/namespace.h"

namespace karez::device {

struct CoreTimes {
  std::chrono::nanoseconds ran{};  // all threads together
  std::chrono::nanoseconds
      waited{};  // the thread that waited longest: it was ready to run, while something else had the core
};

// Reads what the kernel counts for each thread (/proc/self/task/*/schedstat of Linux).
class CoreWaits {
 public:
  explicit CoreWaits(std::string root = "");  // stands for "/" (tests give another)
  // Since the last call, of the threads that were there then. Nothing: the kernel does not count it.
  std::optional<CoreTimes> since_last();

 private:
  std::string folder_;
  std::map<int, CoreTimes> last_;  // by thread
};

// Whether others compute on the cores of this process, from one look after the other: two with waits say so, and a
// second without takes it back.
class Crowding {
 public:
  bool look(const CoreTimes& since, std::chrono::nanoseconds period);
  bool crowded() const { return crowded_; }

 private:
  bool crowded_ = false;
  int waits_ = 0;                    // looks with waits, in a row
  std::chrono::nanoseconds calm_{};  // without waits, while crowded
};

}  // namespace karez::device
