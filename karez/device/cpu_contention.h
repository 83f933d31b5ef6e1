// Detects other programs that compute on the cores of this process, from the time that its threads wait for a core.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "karez/device/namespace.h"

namespace karez::device {

struct SchedTimes {
  std::chrono::nanoseconds ran{};     // all threads together
  std::chrono::nanoseconds waited{};  // of the thread that waited longest: it was ready to run while the core was busy
};

// Reads the kernel's counters of each thread (/proc/self/task/*/schedstat of Linux).
class SchedTimesReader {
 public:
  explicit SchedTimesReader(std::string root = "");  // replaces "/" in tests
  // Times since the last call, of the threads that existed then. nullopt if the kernel does not count them.
  std::optional<SchedTimes> since_last();

 private:
  std::string folder_;
  std::map<int, SchedTimes> last_;  // by thread
};

// Whether other programs compute on the cores of this process: from two successive updates with waits on, until one
// second has passed without waits.
class CpuContention {
 public:
  bool update(const SchedTimes& since, std::chrono::nanoseconds period);
  bool contended() const { return contended_; }

 private:
  bool contended_ = false;
  int contended_periods_ = 0;                    // successive updates with waits
  std::chrono::nanoseconds uncontended_time_{};  // without waits, while contended
};

}  // namespace karez::device
