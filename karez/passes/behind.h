// What each segment waits for: directly, and along all ways.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Asked for one segment after the other, in their order: what is added to one comes before all that is looked at later
// and waits for it.
class Behind {
 public:
  Behind(const Graph& graph, const Segmented& cut) : needs_(cut.segments.size()), behind_(cut.segments.size()) {
    for (NodeId n : graph.nodes.ids()) {
      auto need = [&](NodeId from) {
        if (cut.of[from] != cut.of[n]) needs_[cut.of[n]].insert(cut.of[from]);
      };
      for (ValueId in : graph.node(n).inputs) need(graph.value(in).producer);
      for (NodeId before : graph.node(n).after) need(before);
    }
  }

  void look_at(SegmentId s) {
    behind_[s].assign(place(s) / bits + 1, 0);
    behind_[s].back() |= std::uint64_t{1} << place(s) % bits;
    for (SegmentId from : needs_[s]) add(s, from);
  }
  void add(SegmentId s, SegmentId from) {
    auto& mine = behind_[s];
    const auto& other = behind_[from];
    if (mine.size() < other.size()) mine.resize(other.size(), 0);
    for (std::size_t i = 0; i < other.size(); ++i) mine[i] |= other[i];
  }
  bool waits_for(SegmentId s, SegmentId from) const {  // or is the same
    const std::size_t word = place(from) / bits;
    return word < behind_[s].size() && (behind_[s][word] >> place(from) % bits & 1U) != 0;
  }
  // Whether `other` waits for nothing that `s` does not wait for, s itself included.
  bool waits_for_all_of(SegmentId s, SegmentId other) const {
    return std::all_of(needs_[other].begin(), needs_[other].end(), [&](SegmentId from) { return waits_for(s, from); });
  }

 private:
  static constexpr std::size_t bits = 64;
  static std::size_t place(SegmentId s) { return static_cast<std::size_t>(s.index); }
  ById<SegmentId, std::set<SegmentId>> needs_;
  ById<SegmentId, std::vector<std::uint64_t>> behind_;
};

}  // namespace karez::passes
