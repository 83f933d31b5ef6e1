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

struct SchedTimes {
  std::chrono::nanoseconds ran{};  // all threads together
  std::chrono::nanoseconds
      waited{};  // the thread that waited longest: it was ready to run, while something else had the core
};

// Reads what the kernel counts for each thread (/proc/self/task/*/schedstat of Linux).
class SchedTimesReader {
 public:
  explicit SchedTimesReader(std::string root = "");  // stands for "/" (tests give another)
  // Since the last call, of the threads that were there then. Nothing: the kernel does not count it.
  std::optional<SchedTimes> since_last();

 private:
  std::string folder_;
  std::map<int, SchedTimes> last_;  // by thread
};

// Whether others compute on the cores of this process, from one look after the other: two with waits say so, and a
// second without takes it back.
class CpuContention {
 public:
  bool update(const SchedTimes& since, std::chrono::nanoseconds period);
  bool contended() const { return contended_; }

 private:
  bool contended_ = false;
  int contended_periods_ = 0;                    // looks with waits, in a row
  std::chrono::nanoseconds uncontended_time_{};  // without waits, while crowded
};

}  // namespace karez::device
