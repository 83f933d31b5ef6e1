// The elements of its input that a stage has read and not emitted yet, so that its state is a few numbers: the input is
// read again from the oldest of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stream_state.h"

namespace karez::data {

// Elements have ordinals: the number of elements of the run that the stage read before. The memory is proportional to
// the number of elements held, also if one of them is held while the stage reads and releases others without end.
class HeldInputs {
 public:
  // Begins at ordinal `next`, before which the input's stream has this state.
  void reset(std::int64_t next = 0, StreamStateRef state = nullptr) {
    entries_.clear();
    first_ = held_ = 0;
    next_ = next;
    after_ = std::move(state);
  }
  // Notes that the stage has read an element after which the input has this state. Returns its ordinal.
  std::int64_t read(const StreamStateRef& state) {
    if (entries_.size() >= 2 * held_ + 16) remove_released();
    entries_.push_back({next_, false, std::exchange(after_, state)});
    ++held_;
    return next_++;
  }
  // Notes that the stage has emitted or dropped this element.
  void release(std::int64_t ordinal) {
    Entry& entry = *find(ordinal);
    entry.released = true;
    entry.before = nullptr;
    --held_;
    while (first_ < entries_.size() && entries_[first_].released) ++first_;
  }
  std::int64_t next() const { return next_; }  // elements read
  // The ordinal of the oldest element held, or next().
  std::int64_t oldest() const { return held_ == 0 ? next_ : entries_[first_].ordinal; }
  // The state of the input before it emits element oldest().
  const StreamStateRef& before_oldest() const { return held_ == 0 ? after_ : entries_[first_].before; }
  std::size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    std::int64_t ordinal = 0;
    bool released = false;
    StreamStateRef before;
  };
  std::vector<Entry>::iterator find(std::int64_t ordinal) {
    // Mostly no entry between the first one and this one has been removed.
    const auto distance = static_cast<std::size_t>(ordinal - entries_[first_].ordinal);
    if (const std::size_t at = first_ + distance; at < entries_.size() && entries_[at].ordinal == ordinal)
      return entries_.begin() + static_cast<std::ptrdiff_t>(at);
    return std::lower_bound(entries_.begin(), entries_.end(), ordinal,
                            [](const Entry& entry, std::int64_t value) { return entry.ordinal < value; });
  }
  void remove_released() {
    std::erase_if(entries_, [](const Entry& entry) { return entry.released; });
    first_ = 0;
  }

  std::vector<Entry> entries_;  // by ordinal; the first one that is not released is first_
  std::size_t first_ = 0, held_ = 0;
  std::int64_t next_ = 0;
  StreamStateRef after_;
};

}  // namespace karez::data
