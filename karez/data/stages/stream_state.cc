// Prints and parses the states of streams.
#include "karez/data/stages/stream_state.h"

#include "karez/base/scanner.h"
#include "karez/base/text.h"

namespace karez::data {
namespace {

constexpr int max_depth = 1000;  // of nested states, so that no text makes the parser run out of stack

void append(std::string& out, const StreamState* state) {
  if (state == nullptr) {
    out += '-';
    return;
  }
  out += '(';
  const char* separator = "";
  for (std::int64_t number : state->numbers) out += cat(separator, number), separator = " ";
  if (!state->text.empty()) out += cat(separator, quote(state->text)), separator = " ";
  for (const StreamStateRef& input : state->inputs) {
    out += separator, separator = " ";
    append(out, input.get());
  }
  out += ')';
}

StreamStateRef parse(Scanner& in, int depth) {
  if (in.accept("-")) return nullptr;
  if (depth > max_depth) in.fail_here("a state must be nested at most 1000 times");
  in.expect("(");
  auto state = std::make_shared<StreamState>();
  while (in.peek_number()) state->numbers.push_back(in.integer());
  if (in.peek("\"")) state->text = in.quoted();
  while (!in.accept(")")) state->inputs.push_back(parse(in, depth + 1));
  return state;
}

}  // namespace

StreamStateRef stream_state(std::vector<std::int64_t> numbers, std::vector<StreamStateRef> inputs, std::string text) {
  auto state = std::make_shared<StreamState>();
  state->numbers = std::move(numbers);
  state->inputs = std::move(inputs);
  state->text = std::move(text);
  return state;
}

std::string print(const StreamStateRef& state) {
  std::string out;
  append(out, state.get());
  return out;
}

StreamStateRef parse_stream_state(std::string_view text) {
  try {
    Scanner in(text, "the state of a stream");
    StreamStateRef state = parse(in, 0);
    if (!in.at_end()) in.fail_here("expected the end of the text");
    return state;
  } catch (const Error& error) { throw Error(ErrorKind::data, error.what()); }
}

}  // namespace karez::data
