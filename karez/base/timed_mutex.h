// A mutex with a timeout. (std::timed_mutex waits with a call that the ThreadSanitizer of GCC 12 does not support.)
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace karez::base {

class TimedMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return !locked_; });
    locked_ = true;
  }
  template <class Rep, class Period> bool try_lock_for(std::chrono::duration<Rep, Period> wait_time) {
    std::unique_lock lock(mutex_);
    if (!released_.wait_for(lock, wait_time, [this] { return !locked_; })) return false;
    return locked_ = true;
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    locked_ = false;
    released_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool locked_ = false;
};

}  // namespace karez::base
