// Lets a thread poll for a short time before it sleeps, because to wake a thread takes longer than many waits.
#pragma once

#include "karez/runtime/ticks.h"

namespace karez::runtime {

// Tells the core that the thread polls.
inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until `done()` is true, for at most `limit` ticks. Returns whether it is true.
template <class Done> bool spin_until(std::int64_t limit, Done&& done) {
  const std::int64_t begin = ticks();
  while (!done()) {
    if (ticks() - begin > limit) return false;
    pause_cpu();
  }
  return true;
}

// Acquires a mutex that others hold for about a microsecond: polls before it sleeps. `lock` must not own it.
template <class Lock> void lock_polling(Lock& lock) {
  for (int i = 0; i < 64; ++i) {
    if (lock.try_lock()) return;
    pause_cpu();
  }
  lock.lock();
}

// Decides whether to poll before the next sleep. After the first time that was in vain, 31 waits go without, so at most
// a small share of the waits polls for nothing.
class SpinPolicy {
 public:
  bool next() {
    if (omitted_ == 0) return true;
    --omitted_;
    return false;
  }
  void add(bool succeeded) { omitted_ = succeeded ? 0 : 31; }

 private:
  int omitted_ = 0;
};

}  // namespace karez::runtime
