// Merges updates with equal op, attributes and shared operands into one call on many parameters, at the position of the
// last update.
#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

// True if all members may move to the position of the last member. For this, no call between them may read or write a
// value that a member writes, or write a value that a member reads.
bool are_independent(SegmentCalls& segment, const std::vector<std::size_t>& members) {
  std::set<std::size_t> member_set(members.begin(), members.end());
  std::set<LocalId> written, read;
  for (std::size_t i = members.front(); i <= members.back(); ++i) {
    const LocalCall& call = segment.calls()[i];
    bool is_member = member_set.count(i) > 0;
    for (LocalId in : call.in)
      if (written.count(segment.root(in))) return false;
    for (LocalId out : call.out)
      if (!is_member && (written.count(segment.root(out)) || read.count(segment.root(out)))) return false;
    if (!is_member) continue;
    for (LocalId in : call.in) read.insert(segment.root(in));
    for (LocalId out : call.out) written.insert(segment.root(out));
  }
  return true;
}

template <class T> void append(std::vector<T>& to, const std::vector<T>& from, std::size_t begin, std::size_t end) {
  to.insert(to.end(), from.begin() + static_cast<long>(begin), from.begin() + static_cast<long>(end));
}

// (w0, m0, g0, lr), (w1, m1, g1, lr) -> (w0, m0, g0, w1, m1, g1, lr)
LocalCall merged_call(const std::vector<LocalCall>& calls, const std::vector<std::size_t>& members, std::size_t shared,
                      int team) {
  const LocalCall& last = calls[members.back()];
  LocalCall merged = last;
  merged.in.clear(), merged.spec.in.clear(), merged.out.clear(), merged.spec.out.clear();
  const std::size_t own_operands = last.in.size() - shared;
  std::int64_t elements = 0;
  for (std::size_t i : members) {
    const LocalCall& call = calls[i];
    append(merged.in, call.in, 0, own_operands), append(merged.spec.in, call.spec.in, 0, own_operands);
    append(merged.out, call.out, 0, call.out.size()), append(merged.spec.out, call.spec.out, 0, call.out.size());
    elements += call.spec.out[0].count();
  }
  append(merged.in, last.in, own_operands, last.in.size()),
      append(merged.spec.in, last.spec.in, own_operands, last.in.size());
  constexpr std::int64_t min_team_elements = 1 << 14;  // with fewer, a second thread does not pay off
  merged.spec.team = elements >= min_team_elements ? team : 1;
  return merged;
}

}  // namespace

int merge_updates(SegmentCalls& segment) {
  std::vector<LocalCall>& calls = segment.calls();
  std::map<std::string, std::vector<std::size_t>> groups;  // by op, kernel, attributes, dtype and shared operands
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const LocalCall& call = calls[i];
    const OpDef* op = segment.op_of(call);
    if (op == nullptr || !op->shared_operands || static_cast<int>(call.in.size()) != op->inputs) continue;
    std::string key = cat(call.spec.op, " ", call.kernel, call.spec.attrs.print(), call.spec.in[0].dtype);
    for (std::size_t s = call.in.size() - static_cast<std::size_t>(*op->shared_operands); s < call.in.size(); ++s)
      key += cat(" ", call.in[s]);
    groups[key].push_back(i);
  }
  int changes = 0;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2 || !are_independent(segment, members)) continue;
    auto shared = static_cast<std::size_t>(*segment.op_of(calls[members.back()])->shared_operands);
    LocalCall merged = merged_call(calls, members, shared, segment.team());
    auto choice = segment.catalog().find(merged.spec);
    if (!choice || choice->kernel != merged.kernel) continue;
    merged.workspace = choice->workspace;
    for (std::size_t i : members) segment.drop(i);
    calls[members.back()] = std::move(merged);
    segment.count_uses();
    ++changes;
  }
  return changes;
}

}  // namespace karez::passes
