// Detects other programs that compute on the cores of this process, from the time that threads of this process wait for
// a core.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "karez/device/namespace.h"

namespace karez::device {

struct SchedTimes {
  std::chrono::nanoseconds ran{};     // of all threads together
  std::chrono::nanoseconds waited{};  // of the thread that waited longest while it was ready to run
};

// Reads the kernel's counters of each thread (/proc/self/task/*/schedstat of Linux).
class SchedTimesReader {
 public:
  explicit SchedTimesReader(std::string root = "");  // `root` replaces "/" in tests
  // Returns the times since the last call, of the threads that existed then; nullopt if the kernel does not count them.
  std::optional<SchedTimes> since_last();

 private:
  std::string folder_;
  std::map<int, SchedTimes> last_;  // by thread
};

// Decides whether other programs compute on the cores of this process: contention begins with two successive updates
// with waits, and ends after one second without waits.
class CpuContention {
 public:
  bool update(const SchedTimes& since, std::chrono::nanoseconds period);
  bool contended() const { return contended_; }

 private:
  bool contended_ = false;
  int contended_periods_ = 0;                    // successive updates with waits
  std::chrono::nanoseconds uncontended_time_{};  // time without waits during contention
};

}  // namespace karez::device
