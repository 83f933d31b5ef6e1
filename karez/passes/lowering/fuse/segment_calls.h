// SegmentCalls: the calls of one actor while they are fused, with the readers of each value.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

class SegmentCalls {
 public:
  SegmentCalls(const Graph& graph, const ById<LocalId, LocalValue>& values, const KernelCatalog& catalog, int team,
               std::vector<LocalCall>& calls, const ById<LocalId, bool>& crosses);

  std::vector<LocalCall>& calls() { return calls_; }
  const KernelCatalog& catalog() const { return catalog_; }
  int team() const { return team_; }  // the maximum number of threads of a call

  // True for a call that was removed or fused into another call. Such a call has no kernel.
  static bool is_removed(const LocalCall& call) { return call.kernel.empty(); }
  void drop(std::size_t call);
  void remove_dropped();

  // Returns the op of the node that a call implements, or null for calls that passes created and for removed calls.
  const OpDef* op_of(const LocalCall& call) const;
  LocalId root(LocalId value) const { return values_[value].root; }
  const View& view(LocalId value) const { return values_[value].view; }
  std::int64_t offset(LocalId value) const { return values_[value].offset; }  // in bytes, from the root

  // Whether two values are the same bytes with the same type and strides.
  bool is_same(LocalId a, LocalId b) const {
    return root(a) == root(b) && values_[a].offset == values_[b].offset && view(a) == view(b);
  }

  bool writes_variable(const LocalCall& call) const;
  // Whether the call may make a launch fail because of its data.
  bool may_fail(const LocalCall& call) const;
  // Whether a node of the call must not begin before other nodes have ended, whose results it does not read.
  bool has_control_edge(const LocalCall& call) const;
  // The types and layouts of the operands and results of the call's node, which are the same on all devices.
  std::string logical_types(const LocalCall& call) const;

  // True for matrix products and convolutions, whose library calls can include a bias and a ReLU.
  static bool accepts_epilogue(const LocalCall& call) {
    return !is_removed(call) && (call.spec.op == "matmul" || call.spec.op == "conv2d");
  }
  // Returns the only reader of the result of `call`, or null if there is not exactly one.
  LocalCall* only_reader(const LocalCall& call);
  // Replaces call `i` and its reader with `fused`, at the position and with the result of the reader. Returns false and
  // changes nothing if the kernel of `fused` would differ or if an operand is overwritten in between.
  bool absorb(std::size_t i, LocalCall& reader, LocalCall fused);

  // The calls that read the result of `call`, in order. Empty if another actor reads it, too, or if a variable has it.
  std::vector<std::size_t> readers(const LocalCall& call) const;
  // Replaces call `i`, whose result is not needed any more, and some of the calls after it. The new calls read operands
  // of call `i`. Returns false and changes nothing if one of these is overwritten in between.
  using NewCalls = std::vector<std::pair<std::size_t, LocalCall>>;
  bool replace(std::size_t i, NewCalls readers);
  // The calls that read some memory, in order; a call that reads it twice is listed twice.
  const std::vector<std::size_t>& users(LocalId root) const;
  // Whether other actors or later launches read some memory.
  bool outlives_calls(LocalId root) const {
    return crosses_[root] || values_[root].variable >= 0 || values_[root].constant;
  }
  // Replaces the calls `members`, from `first` to `last`, by one call. After it run those members that are `repeated`,
  // then the calls `late`; before it the other calls between first and last.
  void regroup(std::size_t first, std::size_t last, const std::vector<std::size_t>& members, LocalCall merged,
               const std::vector<std::size_t>& repeated, const std::vector<std::size_t>& late);
  // Whether the bytes of some memory are needed after call `i` in any case: by calls after it, by other actors or by
  // later launches.
  bool is_needed_until(LocalId root, std::size_t call) const;

  // Removes call `i` and lets its readers read its operand instead, if `may_read_operand` is true for all readers.
  // Returns false and changes nothing if this is not possible.
  bool bypass(std::size_t i, bool (*may_read_operand)(const LocalCall&));

  void count_uses();  // must be called after `calls` has been changed directly

 private:
  bool overwritten_between(std::size_t i, const LocalCall& reader) const;
  void put(std::size_t index, LocalCall call);  // replaces the call at `index`
  void remove_uses(std::size_t index);

  const Graph& graph_;
  const ById<LocalId, LocalValue>& values_;
  const KernelCatalog& catalog_;
  int team_;
  std::vector<LocalCall>& calls_;
  const ById<LocalId, bool>& crosses_;                 // by root: true if another actor reads it
  std::map<LocalId, std::vector<std::size_t>> users_;  // by root; may be empty
};

}  // namespace karez::passes
