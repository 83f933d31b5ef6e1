// Asking by the clock.
#include "karez/base/stop.h"

#include <utility>

namespace karez::base {
namespace {

constexpr auto pause = std::chrono::milliseconds(30);
thread_local Stoppable* innermost = nullptr;

}  // namespace

Stoppable::Stoppable(std::function<void()> ask)
    : ask_(std::move(ask)),
      next_(std::chrono::steady_clock::now() + pause),
      before_(std::exchange(innermost, this)) {}
Stoppable::~Stoppable() { innermost = before_; }

void may_stop() {
  Stoppable* here = innermost;
  if (here == nullptr || !here->ask_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < here->next_) return;
  here->next_ = now + pause;
  here->ask_();
}

}  // namespace karez::base
