// The segments for which each segment waits, directly and transitively.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Call `compute` for each segment, in their order. `add` makes a computed segment wait for another one; call it before
// `compute` is called for later segments that wait for the first one.
class Ancestors {
 public:
  Ancestors(const Graph& graph, const Segmentation& segmentation)
      : predecessors_(segmentation.segments.size()),
        ancestors_(segmentation.segments.size()) {
    for (NodeId n : graph.nodes.ids()) {
      auto add_predecessor = [&](NodeId from) {
        if (segmentation.segment_of[from] != segmentation.segment_of[n])
          predecessors_[segmentation.segment_of[n]].insert(segmentation.segment_of[from]);
      };
      for (ValueId in : graph.node(n).inputs) add_predecessor(graph.value(in).producer);
      for (NodeId before : graph.node(n).after) add_predecessor(before);
    }
  }

  void compute(SegmentId s) {
    ancestors_[s].assign(index_of(s) / bits + 1, 0);
    ancestors_[s].back() |= std::uint64_t{1} << index_of(s) % bits;
    for (SegmentId from : predecessors_[s]) add(s, from);
  }
  void add(SegmentId s, SegmentId from) {
    auto& target = ancestors_[s];
    const auto& source = ancestors_[from];
    if (target.size() < source.size()) target.resize(source.size(), 0);
    for (std::size_t i = 0; i < source.size(); ++i) target[i] |= source[i];
  }
  bool waits_for(SegmentId s, SegmentId from) const {  // also true if both are the same segment
    const std::size_t word = index_of(from) / bits;
    return word < ancestors_[s].size() && (ancestors_[s][word] >> index_of(from) % bits & 1U) != 0;
  }
  // True if `s` waits for every segment for which `other` waits, except for `s` itself.
  bool waits_for_all_of(SegmentId s, SegmentId other) const {
    return std::all_of(predecessors_[other].begin(), predecessors_[other].end(),
                       [&](SegmentId from) { return waits_for(s, from); });
  }

 private:
  static constexpr std::size_t bits = 64;
  static std::size_t index_of(SegmentId s) { return static_cast<std::size_t>(s.index); }
  ById<SegmentId, std::set<SegmentId>> predecessors_;
  ById<SegmentId, std::vector<std::uint64_t>> ancestors_;
};

}  // namespace karez::passes
