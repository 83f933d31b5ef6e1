// The calls of one actor while they are fused: who reads what, and one call taking in the next.
#pragma once

#include <cstddef>
#include <map>
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
  int team() const { return team_; }  // threads that a call may have

  // A call that was taken in by another has no kernel.
  static bool is_removed(const LocalCall& call) { return call.kernel.empty(); }
  void drop(std::size_t call) { calls_[call].kernel.clear(); }
  void remove_dropped();

  // The op of the node that a call came from; null for calls that passes made, and for those that are gone.
  const OpDef* op_of(const LocalCall& call) const;
  LocalId root(LocalId value) const { return values_[value].root; }
  const View& view(LocalId value) const { return values_[value].view; }

  // Matrix products and convolutions: what libraries append a bias and a ReLU to.
  static bool accepts_epilogue(const LocalCall& call) {
    return !is_removed(call) && (call.spec.op == "matmul" || call.spec.op == "conv2d");
  }
  // The one call that reads what `call` makes, if nobody else does.
  LocalCall* only_reader(const LocalCall& call);
  // Gives call number `i`, changed so, the place and result of its reader, if the same kernel runs it.
  bool absorb(std::size_t i, LocalCall& reader, LocalCall changed);

  // Makes all readers of call number `i`, if `may` holds of each, read its operand instead; it goes then.
  bool bypass(std::size_t i, bool (*may)(const LocalCall&));

  void count_uses();  // after calls have changed

 private:
  bool overwritten_between(std::size_t i, const LocalCall& reader) const;
  void put(std::size_t place, LocalCall call);  // in place of the one there

  const Graph& graph_;
  const ById<LocalId, LocalValue>& values_;
  const KernelCatalog& catalog_;
  int team_;
  std::vector<LocalCall>& calls_;
  const ById<LocalId, bool>& crosses_;                 // another actor takes its bytes
  std::map<LocalId, std::vector<std::size_t>> users_;  // by root
};

}  // namespace karez::passes
