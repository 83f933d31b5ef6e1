// in_place: a result takes the bytes of an operand that nobody reads any more.
#include "passes/in_place.h"

#include <algorithm>
#include <map>

#include "passes/crossing.h"

namespace karez::passes {

int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls, const ById<LocalId, bool>& crosses) {
  auto local = [&](LocalId v) -> LocalValue& { return values[v]; };
  std::map<LocalId, std::size_t> last;              // by root: the last call that touches its bytes
  std::map<LocalId, std::vector<LocalId>> windows;  // by root: the values of this actor that lie there
  auto touch = [&](LocalId v, std::size_t call) {
    last[local(v).root] = call;
    windows[local(v).root].push_back(v);
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (LocalId in : calls[i].in) touch(in, i);
    for (LocalId out : calls[i].out) touch(out, i);
  }
  auto scratch = [&](LocalId root) { return local(root).variable < 0 && !local(root).constant && !crosses[root]; };
  auto try_pair = [&](std::size_t i, std::size_t operand, std::size_t result) {
    const LocalCall& call = calls[i];
    LocalId from = call.in[operand], to = call.out[result], root = local(from).root;
    if (local(to).root != to || root == to || !scratch(to) || !scratch(root) || last[root] != i) return false;
    if (local(from).view != local(root).view || call.spec.in[operand] != call.spec.out[result] || local(to).view != local(root).view) return false;
    for (std::size_t k = 0; k < call.in.size(); ++k)  // x * x is fine, x * transpose(x) is not
      if (local(call.in[k]).root == root && call.spec.in[k] != call.spec.out[result]) return false;
    last[root] = last[to];
    for (LocalId window : windows[to]) {
      local(window).root = root;
      windows[root].push_back(window);
    }
    return true;
  };
  int count = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].node.valid()) continue;
    const OpDef& op = *graph.node(calls[i].node).op;
    if (op.role != Role::compute || calls[i].in.size() != graph.node(calls[i].node).inputs.size()) continue;
    std::vector<bool> placed(calls[i].out.size(), false);
    for (auto [in, out] : op.in_place) {
      auto operand = static_cast<std::size_t>(in), result = static_cast<std::size_t>(out);
      if (operand >= calls[i].in.size() || result >= placed.size() || placed[result] || !try_pair(i, operand, result)) continue;
      placed[result] = true;
      ++count;
    }
  }
  return count;
}

LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmented& cut) {
  auto crosses = crosses_actors(program, cut);
  for (const LocalSegment& segment : program.segments) write_in_place(graph, program.values, segment.calls, crosses);
  return program;
}

}  // namespace karez::passes
