// The state of a stream of elements: numbers that determine how the stream continues, never the elements themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"

namespace karez::data {

struct StreamState;
using StreamStateRef = std::shared_ptr<const StreamState>;

// The state of one stage after it has emitted an element, and the states from which its inputs continue. A stage
// without a state of its own (map, filter, batch) passes on the state of its input.
struct StreamState {
  std::vector<std::int64_t> numbers;
  std::vector<StreamStateRef> inputs;  // a null input starts from its beginning
  std::string text;                    // what a generator returned as its state
};

StreamStateRef stream_state(std::vector<std::int64_t> numbers, std::vector<StreamStateRef> inputs = {},
                            std::string text = {});

// The state as text: numbers, the text in quotes if it is not empty, and the inputs, as in "(3 7 "text" (12) -)"; "-"
// is a null state. `parse_stream_state` throws an error of the kind `data` for any other text.
std::string print(const StreamStateRef& state);
StreamStateRef parse_stream_state(std::string_view text);

}  // namespace karez::data
