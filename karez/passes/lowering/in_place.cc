// in_place: finds operands that are not read later and gives their bytes to results.
#include "karez/passes/lowering/in_place.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "karez/passes/lowering/cross_actor_values.h"

namespace karez::passes {

namespace {

using RootPredicate = std::function<bool(LocalId)>;  // whether it may give its bytes, or take those of another root
using Windows = std::map<LocalId, std::vector<LocalId>>;

// `windows`: by root, every value on its bytes that is used.
int take_bytes(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
               Windows windows, const RootPredicate& may_give, const RootPredicate& may_take) {
  auto local = [&](LocalId v) -> LocalValue& { return values[v]; };
  std::map<LocalId, std::size_t> last;  // by root: the last call that accesses its bytes
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (LocalId in : calls[i].in) last[local(in).root] = i;
    for (LocalId out : calls[i].out) last[local(out).root] = i;
  }
  auto try_pair = [&](std::size_t i, std::size_t operand, std::size_t result) {
    const LocalCall& call = calls[i];
    LocalId from = call.in[operand], to = call.out[result], root = local(from).root;
    if (local(to).root != to || root == to || !may_take(to) || !may_give(root) || last[root] != i) return false;
    const std::vector<LocalId>& all = windows[root];  // includes results that took these bytes before
    if (!std::all_of(all.begin(), all.end(), may_give)) return false;
    if (local(from).view != local(root).view || call.spec.in[operand] != call.spec.out[result] ||
        local(to).view != local(root).view)
      return false;
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
      if (operand >= calls[i].in.size() || result >= placed.size() || placed[result] || !try_pair(i, operand, result))
        continue;
      placed[result] = true;
      ++count;
    }
  }
  return count;
}

// Only a value that no launch reads may give its bytes; any result may take them.
void write_set_up_in_place(LocalProgram& program, const Graph& graph) {
  const ById<LocalId, bool> read = read_by_launches(program);
  Windows windows;
  for (LocalId v : program.values.ids()) {
    const LocalId root = program.values[v].root;
    if (program.values[root].constant) windows[root].push_back(v);
  }
  take_bytes(
      graph, program.values, program.setup, std::move(windows), [&](LocalId v) { return !read[v]; },
      [](LocalId) { return true; });
}

}  // namespace

int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                   const ById<LocalId, bool>& crosses) {
  Windows windows;
  for (const LocalCall& call : calls)
    for (const auto* touched : {&call.in, &call.out})
      for (LocalId v : *touched) windows[values[v].root].push_back(v);
  const RootPredicate scratch = [&](LocalId v) { return values[v].variable < 0 && !values[v].constant && !crosses[v]; };
  return take_bytes(graph, values, calls, std::move(windows), scratch, scratch);
}

LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmentation& segmentation) {
  auto crosses = crosses_actors(program, segmentation);
  for (const LocalSegment& segment : program.segments) write_in_place(graph, program.values, segment.calls, crosses);
  write_set_up_in_place(program, graph);
  return program;
}

}  // namespace karez::passes
