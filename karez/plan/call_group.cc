// Groups of calls: their number and the first of them.
#include "karez/plan/call_group.h"

#include "karez/base/error.h"

namespace karez::plan {

int calls_of(const Attrs& attrs) {
  const std::int64_t calls = attrs.integer("calls", 1);
  require(calls >= 1 && calls <= max_calls, "calls must be 1 to ", max_calls, ", got ", calls);
  return static_cast<int>(calls);
}

CallSpec first_call(const CallSpec& group) {
  const auto calls = static_cast<std::size_t>(calls_of(group.attrs));
  if (calls == 1) return group;
  require(group.in.size() % calls == 0 && group.out.size() % calls == 0, group.op, ": a group of ", calls,
          " calls must have equal numbers of operands and results for each, got ", group.in.size(), " and ",
          group.out.size());
  CallSpec first = group;
  first.attrs.erase("calls");
  first.in.resize(group.in.size() / calls);
  first.out.resize(group.out.size() / calls);
  first.team = 1;
  return first;
}

}  // namespace karez::plan
