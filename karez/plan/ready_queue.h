// Selects the most urgent of a worker's ready actors: the smallest priority, then the smallest id. Compiler, engine and
// simulator share this rule.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

inline bool precedes_in_priority(const Plan& plan, ActorId a, ActorId b) {
  int pa = plan.actor(a).priority, pb = plan.actor(b).priority;
  return pa != pb ? pa < pb : a < b;
}

// Returns the actors of one worker in the order of priority. ReadyQueue identifies an actor by its place in this list.
inline std::vector<ActorId> priority_order(const Plan& plan, std::vector<ActorId> actors) {
  std::sort(actors.begin(), actors.end(), [&](ActorId a, ActorId b) { return precedes_in_priority(plan, a, b); });
  return actors;
}

// The set of ready actors, as places; `pop` removes the smallest place. It is a two-level bitmap of fixed size, so that
// an operation takes only a few instructions.
class ReadyQueue {
 public:
  explicit ReadyQueue(int places = 0)
      : words_(static_cast<std::size_t>(places + 63) / 64),
        summary_((words_.size() + 63) / 64) {}

  bool empty() const { return count_ == 0; }
  int size() const { return count_; }
  bool has(int place) const { return (words_[static_cast<std::size_t>(place) / 64] >> (place % 64)) & 1; }
  void insert(int place) {
    assert(!has(place));
    auto word = static_cast<std::size_t>(place) / 64;
    words_[word] |= std::uint64_t{1} << (place % 64);
    summary_[word / 64] |= std::uint64_t{1} << (word % 64);
    ++count_;
  }
  int top() const {
    assert(count_ > 0);
    std::size_t s = 0;
    while (summary_[s] == 0) ++s;  // 4096 places each
    std::size_t word = s * 64 + static_cast<std::size_t>(std::countr_zero(summary_[s]));
    return static_cast<int>(word * 64) + std::countr_zero(words_[word]);
  }
  void erase(int place) {
    assert(has(place));
    auto word = static_cast<std::size_t>(place) / 64;
    words_[word] &= ~(std::uint64_t{1} << (place % 64));
    if (words_[word] == 0) summary_[word / 64] &= ~(std::uint64_t{1} << (word % 64));
    --count_;
  }
  int pop() {  // removes and returns the top
    assert(count_ > 0);
    std::size_t s = 0;
    while (summary_[s] == 0) ++s;
    std::size_t word = s * 64 + static_cast<std::size_t>(std::countr_zero(summary_[s]));
    std::uint64_t bits = words_[word], rest = bits & (bits - 1);
    words_[word] = rest;
    if (rest == 0) summary_[s] &= summary_[s] - 1;
    --count_;
    return static_cast<int>(word * 64) + std::countr_zero(bits);
  }

 private:
  std::vector<std::uint64_t> words_, summary_;
  int count_ = 0;
};

}  // namespace karez::plan
