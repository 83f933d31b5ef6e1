// Fuzzes the plan parser with arbitrary text. The parser must reject the text with an Error, or the printed plan must
// parse to an equal plan. A verified plan must have a summary.
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
    Plan reparsed = parse_plan(text);
    check_invariant(print(reparsed) == text, "a printed plan parses to a different plan");
    check_invariant(rank_hash(reparsed) == rank_hash(plan), "a printed plan parses to a plan with a different hash");
  } catch (const Error&) { throw InvariantViolation{"a printed plan is rejected"}; }
  try {
    verify(plan);
  } catch (const Error&) { return; }
  try {
    check_invariant(!summary(plan).empty(), "a verified plan has no summary");
  } catch (const Error&) { throw InvariantViolation{"the summary of a verified plan fails"}; }
}

}  // namespace karez::tests
