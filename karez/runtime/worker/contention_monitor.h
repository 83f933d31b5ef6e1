// Detects whether other programs use the same cores, and makes teams of threads wait passively while they do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Starts a thread that checks ten times a second, or twice a second while the process is idle. The monitor changes no
// team sizes, plans or results.
class ContentionMonitor {
 public:
  // The name of the monitor's thread and of threads that it starts, as shown by /proc and debuggers.
  static constexpr const char* thread_name = "karez-cores";

  // `cpus`: the number of CPUs that the process may use. `root` replaces "/" in tests.
  explicit ContentionMonitor(int cpus, std::string root = "");
  ~ContentionMonitor();
  ContentionMonitor(const ContentionMonitor&) = delete;
  ContentionMonitor& operator=(const ContentionMonitor&) = delete;

  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }
  int times() const { return times_.load(std::memory_order_relaxed); }  // how often contention began

 private:
  void run(int cpus, const std::string& root);

  std::atomic<bool> crowded_{false};
  std::atomic<int> times_{0};
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace karez::runtime
