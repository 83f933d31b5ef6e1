// A bounded set of search states from which no packing can be completed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

// Two hashes of a set of numbered values; the order of `add` calls has no effect.
class StateHash {
 public:
  void add(int number, std::uint64_t value) {
    const std::uint64_t word = mix(value ^ (static_cast<std::uint64_t>(number + 1) << 48));
    first_ += word;
    second_ += mix(word);
  }
  std::uint64_t first() const { return first_; }
  bool operator==(const StateHash&) const = default;

 private:
  static std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  std::uint64_t first_ = 1, second_ = 1;
};

// Each state has one possible entry, given by its hash; a newer state replaces an older one in the same entry.
class FailedStates {
 public:
  bool contains(const StateHash& state) const { return states_[state.first() % max_states] == Entry(true, state); }
  void insert(const StateHash& state) { states_[state.first() % max_states] = {true, state}; }

 private:
  static constexpr std::size_t max_states = 1 << 16;
  using Entry = std::pair<bool, StateHash>;  // true if the entry is used
  std::vector<Entry> states_ = std::vector<Entry>(max_states);
};

}  // namespace karez::solve
