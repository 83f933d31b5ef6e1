// The elements of its input that a stage has read and not emitted yet, so that its state is a few numbers: the input is
// read again from the oldest of them.
#pragma once

#include <cstdint>
#include <deque>

#include "karez/data/namespace.h"
#include "karez/data/stages/stream_state.h"

namespace karez::data {

// Elements have ordinals: the number of elements of the run that the stage read before.
class HeldInputs {
 public:
  // Begins at ordinal `next`, before which the input's stream has this state.
  void reset(std::int64_t next = 0, StreamStateRef state = nullptr) {
    held_.clear();
    oldest_ = next;
    after_ = std::move(state);
  }
  // Notes that the stage has read an element after which the input has this state. Returns its ordinal.
  std::int64_t read(const StreamStateRef& state) {
    held_.push_back({false, std::move(after_)});
    after_ = state;
    return next() - 1;
  }
  // Notes that the stage has emitted or dropped this element.
  void release(std::int64_t ordinal) {
    held_[static_cast<std::size_t>(ordinal - oldest_)] = {true, nullptr};
    for (; !held_.empty() && held_.front().released; ++oldest_) held_.pop_front();
  }
  std::int64_t next() const { return oldest_ + static_cast<std::int64_t>(held_.size()); }  // elements read
  std::int64_t oldest() const { return oldest_; }  // the ordinal of the oldest element held, or next()
  // The state of the input before it emits element oldest().
  const StreamStateRef& before_oldest() const { return held_.empty() ? after_ : held_.front().before; }

 private:
  struct Held {
    bool released = false;
    StreamStateRef before;
  };
  std::deque<Held> held_;
  std::int64_t oldest_ = 0;
  StreamStateRef after_;
};

}  // namespace karez::data
