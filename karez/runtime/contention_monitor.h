// Notices that other programs compute on the same cores, and makes teams of threads wait passively as long as they do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A thread that looks ten times a second, twice a second while nothing runs. Sizes of teams, plans and results stay as
// they are.
class ContentionMonitor {
 public:
  static constexpr const char* thread_name =
      "karez-cores";  // of its thread and of those that it starts, as /proc and debuggers show it

  // cpus: that the process may use. `root` stands for "/" (tests give another).
  explicit ContentionMonitor(int cpus, std::string root = "");
  ~ContentionMonitor();
  ContentionMonitor(const ContentionMonitor&) = delete;
  ContentionMonitor& operator=(const ContentionMonitor&) = delete;

  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }
  int times() const { return times_.load(std::memory_order_relaxed); }  // that it became so

 private:
  void run(int cpus, const std::string& root);

  std::atomic<bool> crowded_{false};
  std::atomic<int> times_{0};
  std::mutex mutex_;
  std::condition_variable called_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace karez::runtime
