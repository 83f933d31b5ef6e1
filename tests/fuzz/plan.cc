// Any text as a plan: refused with an Error, or what it prints as reads back equal; what verifies has a hash and a
// summary.
#include "karez/plan/plan.h"
#include "karez/plan/acts.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_plan(std::string_view bytes) {
  Plan plan;
  try {
    plan = parse_plan(bytes);
  } catch (const Error&) { return; }
  std::string text = print(plan);
  try {
    Plan again = parse_plan(text);
    check_invariant(print(again) == text, "a printed plan reads back as another");
    check_invariant(rank_hash(again) == rank_hash(plan), "a plan that reads back has another hash");
  } catch (const Error&) { throw InvariantViolation{"a printed plan is refused"}; }
  try {
    verify(plan);
  } catch (const Error&) { return; }
  try {
    check_invariant(!summary(plan).empty(), "a verified plan has no summary");
  } catch (const Error&) { throw InvariantViolation{"a verified plan cannot be summed up"}; }
}

}  // namespace karez::tests
