// A mutex that can be waited for so long and no longer. (std::timed_mutex waits by a call that the ThreadSanitizer of
// GCC 12 does not know.)
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace karez::base {

class TimedMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    let_go_.wait(lock, [this] { return !taken_; });
    taken_ = true;
  }
  template <class Rep, class Period> bool try_lock_for(std::chrono::duration<Rep, Period> most) {
    std::unique_lock lock(mutex_);
    if (!let_go_.wait_for(lock, most, [this] { return !taken_; })) return false;
    return taken_ = true;
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    taken_ = false;
    let_go_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable let_go_;
  bool taken_ = false;
};

}  // namespace karez::base
