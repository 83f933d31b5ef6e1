// Fuzzes the parser of states of streams with arbitrary text. It must reject the text with an Error, or the printed
// state must parse to an equal state.
#include "karez/data/stages/stream_state.h"

#include "karez/base/error.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {

bool are_equal(const StreamStateRef& a, const StreamStateRef& b) {
  if (!a || !b) return a == b;
  if (a->numbers != b->numbers || a->text != b->text || a->inputs.size() != b->inputs.size()) return false;
  for (std::size_t i = 0; i < a->inputs.size(); ++i)
    if (!are_equal(a->inputs[i], b->inputs[i])) return false;
  return true;
}

}  // namespace

void fuzz_stream_state(std::string_view bytes) {
  StreamStateRef state;
  try {
    state = parse_stream_state(bytes);
  } catch (const Error&) { return; }
  const std::string text = print(state);
  try {
    const StreamStateRef parsed = parse_stream_state(text);
    check_invariant(are_equal(parsed, state), "a printed state parses to a different state");
    check_invariant(print(parsed) == text, "a printed state is printed differently after it was parsed");
  } catch (const Error&) { throw InvariantViolation{"a printed state is rejected"}; }
}

}  // namespace karez::tests
