// Grows groups of calls on the rows of a matrix, and writes a group as the call of one row program.
#include "karez/passes/lowering/fuse/row_group.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "karez/passes/lowering/fuse/repeated_calls.h"

namespace karez::passes {
namespace {

constexpr std::size_t max_members = 40;    // longer programs would need too many buffers
constexpr std::size_t max_operands = 12;   // of full size or smaller
constexpr std::size_t max_searched = 400;  // calls between the first and the last member

// The memory that calls read and write.
struct Accesses {
  std::set<LocalId> read, written;
  bool may_fail = false;
  void add(const SegmentCalls& segment, const LocalCall& call) {
    for (LocalId in : call.in) read.insert(segment.root(in));
    for (LocalId out : call.out) written.insert(segment.root(out));
    may_fail |= segment.may_fail(call);
  }
  // Whether the call must stay after these accesses. A launch that fails must not have written variables.
  bool conflicts(const SegmentCalls& segment, const LocalCall& call) const {
    if (may_fail && segment.writes_variable(call)) return true;
    return std::any_of(call.in.begin(), call.in.end(), [&](LocalId in) { return written.count(segment.root(in)); }) ||
           std::any_of(call.out.begin(), call.out.end(),
                       [&](LocalId out) { return written.count(segment.root(out)) || read.count(segment.root(out)); });
  }
};

template <class Members> bool contains(const Members& members, std::size_t call) {
  return std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.call == call; });
}

}  // namespace

RowGroup::RowGroup(SegmentCalls& segment, std::size_t reduction, const RowMatrix& matrix)
    : segment_(segment),
      matrix_(matrix) {
  if (auto row = candidate(reduction)) members_.push_back({reduction, std::move(*row)});
}

std::optional<RowCall> RowGroup::candidate(std::size_t index) const {
  const LocalCall& call = segment_.calls()[index];
  auto row = row_call(segment_, call, matrix_);
  // A merged call runs before calls that stood between its members and may fail, so it writes no variables.
  if (!row || segment_.root(call.out[0]) != call.out[0] || segment_.writes_variable(call)) return std::nullopt;
  for (LocalId in : call.in)  // an accumulator
    if (segment_.root(in) == call.out[0]) return std::nullopt;
  if (!members_.empty() && call.acts != segment_.calls()[members_[0].call].acts) return std::nullopt;
  return row;
}

// The call before `before` that writes the memory of a value.
std::optional<std::size_t> RowGroup::producer(LocalId value, std::size_t before) const {
  const LocalId root = segment_.root(value);
  for (std::size_t i = before, searched = 0; i-- > 0 && searched < max_searched; ++searched) {
    const LocalCall& call = segment_.calls()[i];
    if (SegmentCalls::is_removed(call)) continue;
    for (LocalId out : call.out)
      if (segment_.root(out) == root) return i;
  }
  return std::nullopt;
}

void RowGroup::collect_ancestors(std::size_t index, Members& to) const {
  for (LocalId in : segment_.calls()[index].in) {
    const auto from = producer(in, index);
    if (!from || contains(members_, *from) || contains(to, *from) || to.size() + members_.size() >= max_members)
      continue;
    auto row = candidate(*from);
    if (!row || row->is_rounded) continue;
    to.push_back({*from, std::move(*row)});
    collect_ancestors(*from, to);
  }
}

bool RowGroup::accept(Members more) {
  more.insert(more.end(), members_.begin(), members_.end());
  std::sort(more.begin(), more.end(), [](const Member& a, const Member& b) { return a.call < b.call; });
  if (more.size() > max_members || !late_calls(more) || !merge(more)) return false;
  members_ = std::move(more);
  return true;
}

bool RowGroup::add(std::size_t call, bool with_ancestors) {
  auto row = candidate(call);
  if (!row) return false;
  Members more{{call, *row}};
  if (with_ancestors) collect_ancestors(call, more);
  if (more.size() > 1 && accept(std::move(more))) return true;
  return accept({{call, std::move(*row)}});
}

void RowGroup::grow() {
  if (members_.empty()) return;
  std::set<std::size_t> rejected;
  for (bool grown = true; grown;) {
    grown = false;
    std::set<std::size_t, std::greater<>> producers;  // the latest first: its operands may then join
    std::set<std::size_t> readers;
    for (const Member& member : members_) {
      for (LocalId in : segment_.calls()[member.call].in)
        if (const auto from = producer(in, member.call)) producers.insert(*from);
      for (std::size_t reader : segment_.users(segment_.calls()[member.call].out[0])) readers.insert(reader);
    }
    const auto try_to_add = [&](std::size_t call, bool with_ancestors) {
      if (contains(members_, call) || rejected.count(call)) return;
      if (add(call, with_ancestors)) grown = true;
      else rejected.insert(call);
    };
    for (std::size_t call : producers) try_to_add(call, false);
    for (std::size_t call : readers) try_to_add(call, true);
  }
}

std::optional<std::vector<std::size_t>> RowGroup::late_calls(const Members& members) const {
  const std::size_t first = members.front().call, last = members.back().call;
  if (last - first > max_searched) return std::nullopt;
  Accesses member_accesses, late_accesses;
  std::vector<std::size_t> late;
  auto next = members.begin();
  for (std::size_t i = first; i <= last; ++i) {
    const LocalCall& call = segment_.calls()[i];
    if (i == next->call) {
      if (late_accesses.conflicts(segment_, call)) return std::nullopt;
      member_accesses.add(segment_, call);
      ++next;
    } else if (!SegmentCalls::is_removed(call) &&
               (member_accesses.conflicts(segment_, call) || late_accesses.conflicts(segment_, call))) {
      late.push_back(i);
      late_accesses.add(segment_, call);
    }
  }
  return late;
}

bool RowGroup::is_read_elsewhere(const Members& members, LocalId value) const {
  const auto& users = segment_.users(value);
  return segment_.outlives_calls(value) ||
         std::any_of(users.begin(), users.end(), [&](std::size_t user) { return !contains(members, user); });
}

// Whether other readers should compute a result of full size again, as they do in chains: x - mean.
bool RowGroup::is_repeated(const Members& members, const Member& member) const {
  const LocalCall& call = segment_.calls()[member.call];
  const LocalId value = call.out[0];
  if (member.row.kind != RowStatementKind::each || member.row.out != RowExtent::full || member.row.is_rounded ||
      segment_.outlives_calls(value) || !is_read_elsewhere(members, value) || !may_repeat(call, member.row.expr))
    return false;
  return std::none_of(call.in.begin(), call.in.end(), [&](LocalId in) {
    return std::any_of(members.begin(), members.end(), [&](const Member& other) {
      return segment_.calls()[other.call].out[0] == segment_.root(in) && other.row.out == RowExtent::full;
    });
  });
}

// The row program of the members. Equal operands are one input, and results that only members read are none.
std::optional<LocalCall> RowGroup::merge(const Members& members, std::vector<std::size_t>* repeated) const {
  const std::vector<LocalCall>& calls = segment_.calls();
  const LocalCall& last = calls[members.back().call];
  LocalCall out;
  out.spec.device = last.spec.device, out.node = last.node, out.acts = last.acts;
  std::vector<std::vector<int>> variables(members.size());  // of the operands of each member
  const Attrs* index = nullptr;                             // of the one_hot call
  for (std::size_t m = 0; m < members.size(); ++m) {
    const auto& [number, row] = members[m];
    const LocalCall& call = calls[number];
    if (row.kind == RowStatementKind::one_hot) {
      if (index != nullptr && *index != call.spec.attrs) return std::nullopt;
      index = &call.spec.attrs;
    }
    for (std::size_t k = 0; k < call.in.size(); ++k) {
      const LocalId in = call.in[k], root = segment_.root(in);
      const auto from = std::find_if(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(m),
                                     [&](const Member& other) { return calls[other.call].out[0] == root; });
      if (from != members.begin() + static_cast<std::ptrdiff_t>(m)) {
        const bool is_same_type = call.spec.in[k].dtype == calls[from->call].spec.out[0].dtype;
        if (from->row.is_rounded || from->row.out != row.in[k] || segment_.offset(in) != 0 || !is_same_type)
          return std::nullopt;
        variables[m].push_back(static_cast<int>(from - members.begin()) + max_row_variables);
        continue;
      }
      const View view = matrix_.view(row.in[k], call.spec.in[k].dtype);
      std::size_t input = 0;
      while (input < out.in.size() && !(segment_.root(out.in[input]) == root && out.spec.in[input] == view &&
                                        segment_.offset(out.in[input]) == segment_.offset(in)))
        ++input;
      if (input == out.in.size()) out.in.push_back(in), out.spec.in.push_back(view);
      variables[m].push_back(static_cast<int>(input));
    }
  }
  RowProgram program;
  program.inputs = static_cast<int>(out.in.size());
  if (out.in.size() > max_operands || out.in.size() + members.size() > static_cast<std::size_t>(max_row_variables))
    return std::nullopt;
  std::vector<bool> repeats(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) repeats[m] = is_repeated(members, members[m]);
  for (std::size_t m = 0; m < members.size(); ++m) {
    std::vector<Expr> with;
    with.reserve(variables[m].size());
    for (int v : variables[m])
      with.push_back(base::expr_variable(v < max_row_variables ? v : program.inputs + v - max_row_variables));
    program.statements.push_back({members[m].row.kind, substitute(members[m].row.expr, with)});
    const LocalCall& call = calls[members[m].call];
    if (repeats[m] && repeated != nullptr) repeated->push_back(members[m].call);
    bool is_result = !repeats[m] && is_read_elsewhere(members, call.out[0]);
    for (std::size_t other = m + 1; other < members.size() && !is_result; ++other) {
      const std::vector<LocalId>& in = calls[members[other].call].in;
      is_result = repeats[other] && std::any_of(in.begin(), in.end(),
                                                [&](LocalId operand) { return segment_.root(operand) == call.out[0]; });
    }
    if (is_result) {
      program.results.push_back(program.inputs + static_cast<int>(m));
      out.out.push_back(call.out[0]);
      out.spec.out.push_back(matrix_.view(members[m].row.out, call.spec.out[0].dtype));
    }
    out.merged.insert(out.merged.end(), call.merged.begin(), call.merged.end());
    if (m + 1 < members.size()) out.merged.push_back(call.node);
  }
  if (program.results.empty()) return std::nullopt;
  out.spec.op = "row_program";
  out.spec.attrs = index == nullptr ? Attrs() : *index;  // offset, limit and others of one_hot
  out.spec.attrs.erase("depth");
  out.spec.attrs.set("program", print(program));
  for (const Member& member : members) out.spec.team = std::max(out.spec.team, calls[member.call].spec.team);
  const auto choice = segment_.catalog().find(out.spec);
  if (!choice || choice->rate < 1) return std::nullopt;
  out.kernel = choice->kernel, out.workspace = choice->workspace;
  return out;
}

// Whether one call and the repeated members read and write fewer bytes than all members.
bool RowGroup::saves_traffic(const LocalCall& merged, const Members& members,
                             const std::vector<std::size_t>& repeated) const {
  const auto bytes = [&](const LocalCall& call, const std::vector<RowExtent>& in) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < call.spec.in.size(); ++k) sum += matrix_.view(in[k], call.spec.in[k].dtype).bytes();
    for (const View& view : call.spec.out) sum += view.bytes();
    return sum;
  };
  std::int64_t separate = 0, together = 0;
  for (const Member& member : members) {
    const std::int64_t own = bytes(segment_.calls()[member.call], member.row.in);
    separate += own;
    if (std::find(repeated.begin(), repeated.end(), member.call) != repeated.end()) together += own;
  }
  for (const auto* views : {&merged.spec.in, &merged.spec.out})
    for (const View& view : *views) together += view.bytes();
  return together < separate;
}

// The operands of members are read later. Whether memory that would be free by then is at most that of the values that
// are not stored any more. If there is no call between the members, almost no other memory is in use.
bool RowGroup::saves_memory(const Merged& merged) const {
  const std::vector<LocalCall>& calls = segment_.calls();
  bool is_alone = true;
  for (std::size_t i = merged.first; i <= merged.last; ++i)
    is_alone &= SegmentCalls::is_removed(calls[i]) ||
                std::find(merged.members.begin(), merged.members.end(), i) != merged.members.end();
  if (is_alone) return true;
  std::set<LocalId> operands;
  std::int64_t longer = 0, saved = 0;
  for (std::size_t k = 0; k < merged.call.in.size(); ++k) {
    const LocalId root = segment_.root(merged.call.in[k]);
    if (operands.insert(root).second && !segment_.is_needed_until(root, merged.last))
      longer += segment_.view(root).bytes();
  }
  for (std::size_t member : merged.members) {
    const LocalId value = calls[member].out[0];
    if (std::find(merged.call.out.begin(), merged.call.out.end(), value) == merged.call.out.end())
      saved += segment_.view(value).bytes();
  }
  return longer <= saved;
}

std::optional<RowGroup::Merged> RowGroup::merged() const {
  if (members_.size() < 2) return std::nullopt;
  auto late = late_calls(members_);
  std::vector<std::size_t> repeated;
  auto call = merge(members_, &repeated);
  if (!late || !call || !saves_traffic(*call, members_, repeated)) return std::nullopt;
  Merged out{std::move(*call), members_.front().call, members_.back().call, {}, std::move(*late), std::move(repeated)};
  for (const Member& member : members_) out.members.push_back(member.call);
  if (!saves_memory(out)) return std::nullopt;
  return out;
}

}  // namespace karez::passes
