// Finds operands that are not read later and gives their memory to results.
#include "karez/passes/lowering/in_place.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/plan/call_group.h"

namespace karez::passes {

namespace {

using RootPredicate = std::function<bool(LocalId)>;
using Windows = std::map<LocalId, std::vector<LocalId>>;

// Lets results take the memory of operands. A root gives its memory only if `may_give` is true for all windows on it,
// and takes memory only if `may_take` is true. `windows` lists, for each root, the values that use its memory.
int reuse_memory(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                 Windows windows, const RootPredicate& may_give, const RootPredicate& may_take) {
  auto local = [&](LocalId v) -> LocalValue& { return values[v]; };
  std::map<LocalId, std::size_t> last;  // the last call that accesses the memory of each root
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (LocalId in : calls[i].in) last[local(in).root] = i;
    for (LocalId out : calls[i].out) last[local(out).root] = i;
  }
  // `first` and `end` are the operands of the same call of a group; other calls of the group must not use the memory.
  auto try_pair = [&](std::size_t i, std::size_t operand, std::size_t result, std::size_t first, std::size_t end) {
    const LocalCall& call = calls[i];
    LocalId source = call.in[operand], target = call.out[result], root = local(source).root;
    if (local(target).root != target || root == target || !may_take(target) || !may_give(root) || last[root] != i)
      return false;
    const std::vector<LocalId>& windows_on_root = windows[root];  // includes results that already took this memory
    if (!std::all_of(windows_on_root.begin(), windows_on_root.end(), may_give)) return false;
    if (local(source).view != local(root).view || call.spec.in[operand] != call.spec.out[result] ||
        local(target).view != local(root).view)
      return false;
    for (std::size_t k = 0; k < call.in.size(); ++k)  // x * x may be in place, x * transpose(x) may not
      if (local(call.in[k]).root == root && (k < first || k >= end || call.spec.in[k] != call.spec.out[result]))
        return false;
    last[root] = last[target];
    for (LocalId window : windows[target]) {
      local(window).root = root;
      windows[root].push_back(window);
    }
    return true;
  };
  // Places the results of a call, or of one call of a group. Returns the number of those that take an operand's memory.
  auto place_results = [&](std::size_t i, std::size_t number, std::size_t group) {
    const OpDef& op = *graph.node(calls[i].node).op;
    const std::size_t operands = calls[i].in.size() / group, results = calls[i].out.size() / group;
    const std::size_t first = number * operands, end = first + operands, first_result = number * results;
    if (!calls[i].merged.empty()) {
      int count = 0;
      std::vector<bool> given(operands, false);
      for (std::size_t result = 0; result < results; ++result)
        for (std::size_t operand = 0; operand < operands; ++operand)
          if (!given[operand] && try_pair(i, first + operand, first_result + result, first, end)) {
            given[operand] = true;
            ++count;
            break;
          }
      return count;
    }
    if (op.role != Role::compute || operands != graph.node(calls[i].node).inputs.size()) return 0;
    std::vector<bool> placed(results, false);
    int count = 0;
    for (auto [in, out] : op.in_place) {
      auto operand = static_cast<std::size_t>(in), result = static_cast<std::size_t>(out);
      if (operand >= operands || result >= results || placed[result] ||
          !try_pair(i, first + operand, first_result + result, first, end))
        continue;
      placed[result] = true;
      ++count;
    }
    return count;
  };
  int count = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].node.valid()) continue;
    const auto group = static_cast<std::size_t>(calls_of(calls[i].spec.attrs));
    for (std::size_t call = 0; call < group; ++call) count += place_results(i, call, group);
  }
  return count;
}

// Applies the rule to the setup: only a value that no launch reads may give its memory; any result may take memory.
void write_setup_in_place(LocalProgram& program, const Graph& graph) {
  const ById<LocalId, bool> is_read_by_launches = read_by_launches(program);
  Windows windows;
  for (LocalId v : program.values.ids()) {
    const LocalId root = program.values[v].root;
    if (program.values[root].constant) windows[root].push_back(v);
  }
  reuse_memory(
      graph, program.values, program.setup, std::move(windows), [&](LocalId v) { return !is_read_by_launches[v]; },
      [](LocalId) { return true; });
}

}  // namespace

int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                   const ById<LocalId, bool>& crosses) {
  Windows windows;
  for (const LocalCall& call : calls)
    for (const auto* operands : {&call.in, &call.out})
      for (LocalId v : *operands) windows[values[v].root].push_back(v);
  const RootPredicate is_scratch = [&](LocalId v) {
    return values[v].variable < 0 && !values[v].constant && !crosses[v];
  };
  return reuse_memory(graph, values, calls, std::move(windows), is_scratch, is_scratch);
}

LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmentation& segmentation) {
  auto crosses = crosses_actors(program, segmentation);
  for (const LocalSegment& segment : program.segments) write_in_place(graph, program.values, segment.calls, crosses);
  write_setup_in_place(program, graph);
  return program;
}

}  // namespace karez::passes
