// Makes independent calls with equal kernels, attributes and views one call, at the position of the first of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "karez/base/text.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

// In larger calls, the overhead of a call is small relative to the work.
constexpr std::int64_t max_call_bytes = 1 << 14;
constexpr std::int64_t min_team_elements = 1 << 16;  // with fewer in a group, a second thread does not pay off
// The numbers of multiplications of a product. A team gains little from a group of larger ones.
constexpr std::int64_t max_product = 1 << 22;
constexpr std::int64_t min_team_products = 1 << 18;  // with fewer in a group, a second thread does not pay off
// The results of a group are stored from its first call on. The limit of the bytes of an actor's results that are
// stored earlier than without groups.
constexpr std::int64_t max_moved_bytes = 1 << 18;

std::int64_t bytes_of(const std::vector<View>& views) {
  std::int64_t bytes = 0;
  for (const View& view : views) bytes += view.bytes();
  return bytes;
}

std::int64_t multiplications(const CallSpec& product) {
  return product.out[0].count() * product.in[0].count() / std::max<std::int64_t>(product.out[0].shape[0], 1);
}

bool is_product(const LocalCall& call) { return call.spec.op == "matmul" && call.spec.out[0].rank() == 2; }
bool is_small_product(const LocalCall& call) {
  return is_product(call) && call.spec.out[0].count() > 0 && multiplications(call.spec) <= max_product;
}
bool is_small_pointwise(const LocalCall& call) {
  return (call.spec.op == "pointwise" || call.spec.op == "cast") && call.spec.out.size() == 1 &&
         call.spec.out[0].count() > 0 && bytes_of(call.spec.in) + bytes_of(call.spec.out) <= max_call_bytes;
}

// Positions in the order that the groups make: where each value was last read and written.
class Positions {
 public:
  explicit Positions(const SegmentCalls& segment) : segment_(segment) {}
  // The position of the last call that must come before this one; -1 if there is none.
  std::ptrdiff_t last_before(const LocalCall& call) const {
    std::ptrdiff_t last = -1;
    for (LocalId in : call.in) last = std::max(last, at(written_, in));
    for (LocalId out : call.out) last = std::max({last, at(written_, out), at(read_, out)});
    // A launch that fails must not have written variables.
    return segment_.writes_variable(call) ? std::max(last, last_failing_) : last;
  }
  void add(const LocalCall& call, std::ptrdiff_t position) {
    for (LocalId in : call.in) put(read_, in, position);
    for (LocalId out : call.out) put(written_, out, position);
    if (segment_.may_fail(call)) last_failing_ = position;
  }

 private:
  using ByRoot = std::map<LocalId, std::ptrdiff_t>;
  std::ptrdiff_t at(const ByRoot& positions, LocalId value) const {
    const auto found = positions.find(segment_.root(value));
    return found == positions.end() ? -1 : found->second;
  }
  void put(ByRoot& positions, LocalId value, std::ptrdiff_t position) const {
    std::ptrdiff_t& last = positions.try_emplace(segment_.root(value), -1).first->second;
    last = std::max(last, position);
  }

  const SegmentCalls& segment_;
  ByRoot read_, written_;
  std::ptrdiff_t last_failing_ = -1;  // the position of the last call that may fail
};

struct CallGroup {
  std::vector<std::size_t> calls;
  std::size_t first_number = 0;  // of the first call, if removed calls are not counted
};

// Finds groups of calls for which `may_be_grouped` is true and whose keys are equal. A call joins the earliest group
// whose first call comes after all calls that must come before it.
template <class Predicate, class Key>
std::vector<CallGroup> find_groups(SegmentCalls& segment, Predicate may_be_grouped, Key key_of) {
  const std::vector<LocalCall>& calls = segment.calls();
  Positions positions(segment);
  std::map<std::string, std::vector<CallGroup>> by_key;  // in the order of their first calls
  std::int64_t moved_bytes = 0;
  std::size_t number = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const LocalCall& call = calls[i];
    if (SegmentCalls::is_removed(call)) continue;
    ++number;
    std::size_t position = i;
    if (may_be_grouped(call)) {
      std::vector<CallGroup>& groups = by_key[key_of(call)];
      auto group = std::upper_bound(
          groups.begin(), groups.end(), positions.last_before(call),
          [](std::ptrdiff_t last, const CallGroup& g) { return last < static_cast<std::ptrdiff_t>(g.calls[0]); });
      // If there are no other calls between those of the group, or a variable has the result, no memory is needed
      // longer.
      const bool needs_memory = group != groups.end() && number - group->first_number != group->calls.size() &&
                                !segment.writes_variable(call);
      const std::int64_t bytes = needs_memory ? bytes_of(call.spec.out) : 0;
      if (group == groups.end() || moved_bytes + bytes > max_moved_bytes || segment.has_control_edge(call)) {
        groups.push_back({{i}, number});
      } else {
        position = group->calls[0], moved_bytes += bytes;
        group->calls.push_back(i);
      }
    }
    positions.add(call, static_cast<std::ptrdiff_t>(position));
  }
  std::vector<CallGroup> found;
  for (auto& [key, groups] : by_key)
    for (CallGroup& group : groups)
      if (group.calls.size() > 1) found.push_back(std::move(group));
  return found;
}

LocalCall grouped(const std::vector<LocalCall>& calls, const CallGroup& group, int team) {
  LocalCall out = calls[group.calls[0]];
  const auto count = static_cast<std::int64_t>(group.calls.size());
  const bool has_work = is_product(out) ? multiplications(out.spec) * count >= min_team_products
                                        : out.spec.out[0].count() * count >= min_team_elements;
  for (std::size_t k = 1; k < group.calls.size(); ++k) {
    const LocalCall& call = calls[group.calls[k]];
    out.in.insert(out.in.end(), call.in.begin(), call.in.end());
    out.out.insert(out.out.end(), call.out.begin(), call.out.end());
    out.spec.in.insert(out.spec.in.end(), call.spec.in.begin(), call.spec.in.end());
    out.spec.out.insert(out.spec.out.end(), call.spec.out.begin(), call.spec.out.end());
  }
  out.spec.attrs.set("calls", count);
  out.spec.team = has_work ? team : 1;
  return out;
}

// Equal calls have equal texts.
std::string key_of(const LocalCall& call) {
  return cat(call.kernel, " ", call.acts.begin, " ", call.acts.end, " ", print(call.spec));
}

// Returns false if the catalog has another kernel for one of the groups, whose key is added to `refused`.
bool replace_groups(SegmentCalls& segment, const std::vector<CallGroup>& groups, std::set<std::string>& refused) {
  std::vector<LocalCall>& calls = segment.calls();
  std::vector<LocalCall> merged;
  for (const CallGroup& group : groups) {
    merged.push_back(grouped(calls, group, segment.team()));
    const auto choice = segment.catalog().find(merged.back().spec);
    if (!choice || choice->kernel != merged.back().kernel) {
      refused.insert(key_of(calls[group.calls[0]]));
      return false;
    }
    merged.back().workspace = choice->workspace;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i : groups[g].calls) segment.drop(i);
    calls[groups[g].calls[0]] = std::move(merged[g]);
  }
  segment.count_uses();
  return true;
}

template <class Predicate, class Key> int group(SegmentCalls& segment, Predicate predicate, Key key) {
  std::set<std::string> refused;
  while (true) {  // positions depend on all groups, so they are found again if one is refused
    const std::vector<CallGroup> groups = find_groups(
        segment, [&](const LocalCall& call) { return predicate(call) && refused.count(key_of(call)) == 0; }, key);
    if (groups.empty()) return 0;
    if (replace_groups(segment, groups, refused)) return static_cast<int>(groups.size());
  }
}

}  // namespace

// Replicas of a product must have the same bits, and these may depend on the rows that a thread computes. So the
// products of a group have equal logical types, not only equal parts on this device.
int group_products(SegmentCalls& segment) {
  if (segment.team() == 1) return 0;
  return group(segment, is_small_product,
               [&](const LocalCall& call) { return cat(key_of(call), segment.logical_types(call)); });
}

int group_calls(SegmentCalls& segment) { return group(segment, is_small_pointwise, key_of); }

}  // namespace karez::passes
