// Fuses and removes calls of one actor.
#include "karez/passes/lowering/fuse/segment_calls.h"

#include <algorithm>
#include <iterator>

#include "karez/base/text.h"
#include "karez/passes/scheduling/write_gate.h"

namespace karez::passes {

SegmentCalls::SegmentCalls(const Graph& graph, const ById<LocalId, LocalValue>& values, const KernelCatalog& catalog,
                           int team, std::vector<LocalCall>& calls, const ById<LocalId, bool>& crosses)
    : graph_(graph),
      values_(values),
      catalog_(catalog),
      team_(team),
      calls_(calls),
      crosses_(crosses) {
  count_uses();
}

void SegmentCalls::remove_dropped() { std::erase_if(calls_, is_removed); }

const OpDef* SegmentCalls::op_of(const LocalCall& call) const {
  return call.node.valid() && !is_removed(call) ? graph_.node(call.node).op : nullptr;
}

void SegmentCalls::count_uses() {
  for (auto& [root, users] : users_) users.clear();  // keeps the memory: `regroup` counts again for each group
  for (std::size_t i = 0; i < calls_.size(); ++i)
    if (!is_removed(calls_[i]))
      for (LocalId in : calls_[i].in) users_[root(in)].push_back(i);
}

bool SegmentCalls::writes_variable(const LocalCall& call) const {
  return std::any_of(call.out.begin(), call.out.end(), [&](LocalId v) { return values_[root(v)].variable >= 0; });
}

bool SegmentCalls::may_fail(const LocalCall& call) const {
  const auto fails = [&](NodeId node) { return node.valid() && passes::may_fail(graph_.node(node)); };
  return fails(call.node) || std::any_of(call.merged.begin(), call.merged.end(), fails);
}

bool SegmentCalls::has_control_edge(const LocalCall& call) const {
  const auto waits = [&](NodeId node) { return node.valid() && !graph_.node(node).after.empty(); };
  return waits(call.node) || std::any_of(call.merged.begin(), call.merged.end(), waits);
}

std::string SegmentCalls::logical_types(const LocalCall& call) const {
  if (!call.node.valid()) return "";
  const Node& node = graph_.node(call.node);
  std::string text;
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId id : *values) {
      const Value& value = graph_.value(id);
      text += cat(value.mesh, " ",
                  value.layout ? print(value.type, graph_.meshes[static_cast<std::size_t>(value.mesh)], *value.layout)
                               : print(value.type),
                  "; ");
    }
  return text;
}

LocalCall* SegmentCalls::only_reader(const LocalCall& call) {
  LocalId out = root(call.out[0]);
  auto at = users_.find(out);
  if (at == users_.end() || at->second.size() != 1 || crosses_[out] || values_[out].variable >= 0) return nullptr;
  return &calls_[at->second[0]];
}

bool SegmentCalls::absorb(std::size_t i, LocalCall& reader, LocalCall fused) {
  fused.out = reader.out;
  fused.spec.out = reader.spec.out;
  auto choice = catalog_.find(fused.spec);
  if (!choice || choice->kernel != calls_[i].kernel || overwritten_between(i, reader)) return false;
  fused.workspace = choice->workspace;
  // The fused call takes the reader's position: all operands exist there, and readers of the result come after it.
  fused.kernel = choice->kernel;
  put(static_cast<std::size_t>(&reader - calls_.data()), std::move(fused));
  drop(i);
  return true;
}

std::vector<std::size_t> SegmentCalls::readers(const LocalCall& call) const {
  const LocalId out = root(call.out[0]);
  const auto at = users_.find(out);
  if (at == users_.end() || crosses_[out] || values_[out].variable >= 0 || values_[out].constant) return {};
  std::vector<std::size_t> calls = at->second;
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());  // a call may read the value twice
  return calls;
}

bool SegmentCalls::replace(std::size_t i, NewCalls readers) {
  for (const auto& [index, call] : readers)
    if (overwritten_between(i, calls_[index])) return false;
  for (auto& [index, call] : readers) put(index, std::move(call));
  drop(i);
  return true;
}

const std::vector<std::size_t>& SegmentCalls::users(LocalId root) const {
  static const std::vector<std::size_t> none;
  const auto at = users_.find(root);
  return at == users_.end() ? none : at->second;
}

void SegmentCalls::regroup(std::size_t first, std::size_t last, const std::vector<std::size_t>& members,
                           LocalCall merged, const std::vector<std::size_t>& repeated,
                           const std::vector<std::size_t>& late) {
  const auto is_in = [](const std::vector<std::size_t>& calls, std::size_t i) {
    return std::find(calls.begin(), calls.end(), i) != calls.end();
  };
  std::vector<LocalCall> before, after{std::move(merged)};
  for (std::size_t i : repeated) after.push_back(calls_[i]);
  for (std::size_t i = first; i <= last; ++i)
    if (!is_removed(calls_[i]) && !is_in(members, i)) (is_in(late, i) ? after : before).push_back(std::move(calls_[i]));
  before.insert(before.end(), std::make_move_iterator(after.begin()), std::make_move_iterator(after.end()));
  const auto begin = calls_.begin() + static_cast<std::ptrdiff_t>(first);
  calls_.erase(begin, begin + static_cast<std::ptrdiff_t>(last - first) + 1);
  calls_.insert(calls_.begin() + static_cast<std::ptrdiff_t>(first), std::make_move_iterator(before.begin()),
                std::make_move_iterator(before.end()));
  count_uses();
}

bool SegmentCalls::is_needed_until(LocalId root, std::size_t call) const {
  if (outlives_calls(root)) return true;
  const auto at = users_.find(root);
  return at != users_.end() && !at->second.empty() && at->second.back() >= call;
}

bool SegmentCalls::bypass(std::size_t i, bool (*may_read_operand)(const LocalCall&)) {
  const LocalId out = calls_[i].out[0], in = calls_[i].in[0];
  const auto users = users_.find(root(out));
  if (users == users_.end() || users->second.empty() || crosses_[root(out)] || values_[root(out)].variable >= 0)
    return false;
  std::vector<std::pair<std::size_t, LocalCall>> changed_calls;
  for (std::size_t user : users->second) {
    if (!changed_calls.empty() && changed_calls.back().first == user) continue;  // the call reads the value twice
    LocalCall call = calls_[user];
    if (!may_read_operand(call) || overwritten_between(i, calls_[user])) return false;
    for (std::size_t k = 0; k < call.in.size(); ++k) {
      if (root(call.in[k]) != root(out)) continue;
      if (call.in[k] != out || view(out).strides != view(in).strides) return false;
      call.in[k] = in;
      call.spec.in[k].dtype = view(in).dtype;
    }
    const auto choice = catalog_.find(call.spec);
    if (!choice || choice->kernel != call.kernel) return false;
    call.workspace = choice->workspace;
    changed_calls.emplace_back(user, std::move(call));
  }
  for (auto& [user, call] : changed_calls) put(user, std::move(call));
  drop(i);
  return true;
}

void SegmentCalls::drop(std::size_t call) {
  if (is_removed(calls_[call])) return;
  remove_uses(call);
  calls_[call].kernel.clear();
}

void SegmentCalls::remove_uses(std::size_t index) {
  for (LocalId in : calls_[index].in) {
    auto& users = users_[root(in)];
    users.erase(std::lower_bound(users.begin(), users.end(), index));
  }
}

void SegmentCalls::put(std::size_t index, LocalCall call) {
  remove_uses(index);
  calls_[index] = std::move(call);
  for (LocalId in : calls_[index].in) {
    auto& users = users_[root(in)];
    users.insert(std::upper_bound(users.begin(), users.end(), index), index);
  }
}

// True if a call between call `i` and the reader overwrites an operand of call `i`, which then must not move.
bool SegmentCalls::overwritten_between(std::size_t i, const LocalCall& reader) const {
  for (std::size_t k = i + 1; &calls_[k] != &reader; ++k)
    for (LocalId out : calls_[k].out)
      for (LocalId in : calls_[i].in)
        if (!is_removed(calls_[k]) && root(out) == root(in)) return true;
  return false;
}

}  // namespace karez::passes
