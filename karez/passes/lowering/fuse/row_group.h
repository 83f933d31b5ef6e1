// RowGroup: calls on the rows of one matrix that become one call, and the calls that must then run after it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "karez/passes/lowering/fuse/row_calls.h"
#include "karez/passes/lowering/fuse/segment_calls.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

class RowGroup {
 public:
  // The group of one reduction. It can only grow.
  RowGroup(SegmentCalls& segment, std::size_t reduction, const RowMatrix& matrix);

  // Adds the calls whose results the members need, then the readers of results of members, as long as one call with all
  // of them is possible.
  void grow();

  struct Merged {
    LocalCall call;
    std::size_t first = 0, last = 0;    // of the members
    std::vector<std::size_t> members;   // in order
    std::vector<std::size_t> late;      // calls between first and last that must run after the merged call
    std::vector<std::size_t> repeated;  // members that also stay as calls of their own, after the merged call
  };
  // Returns nullopt if one call would neither save memory traffic nor fit in the memory of the separate calls.
  std::optional<Merged> merged() const;

 private:
  // Calls with their statements, in order.
  struct Member {
    std::size_t call;
    RowCall row;
  };
  using Members = std::vector<Member>;

  std::optional<RowCall> candidate(std::size_t call) const;
  // Adds a call, if possible together with the calls on the matrix that compute its operands.
  bool add(std::size_t call, bool with_ancestors);
  void collect_ancestors(std::size_t call, Members& to) const;
  bool accept(Members more);
  // Returns the calls that must run after the merged call, or nullopt if a member would have to.
  std::optional<std::vector<std::size_t>> late_calls(const Members& members) const;
  std::optional<LocalCall> merge(const Members& members, std::vector<std::size_t>* repeated = nullptr) const;
  bool is_read_elsewhere(const Members& members, LocalId value) const;
  bool is_repeated(const Members& members, const Member& member) const;
  bool saves_memory(const Merged& merged) const;
  bool saves_traffic(const LocalCall& merged, const Members& members, const std::vector<std::size_t>& repeated) const;
  std::optional<std::size_t> producer(LocalId value, std::size_t before) const;

  SegmentCalls& segment_;
  RowMatrix matrix_;
  Members members_;
};

}  // namespace karez::passes
