// Fuzzes the reader of JSONL, with fields and without, with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_jsonl(std::string_view bytes) {
  check_format(bytes, [](const data::FileOptions& options) { return data::from_jsonl({"a"}, {}, options); });
  const data::JsonlOptions fields = {.fields = {{"x", DType::f32}, {"i", DType::u8}, {"s", {}}}};
  check_format(bytes, [&](const data::FileOptions& options) { return data::from_jsonl({"a"}, fields, options); });
  const data::JsonlOptions tokens = {.make = [](const data::JsonDocument& document) {
    std::vector<std::uint8_t> kinds;
    document([&](const data::JsonToken& token) { kinds.push_back(static_cast<std::uint8_t>(token.kind)); });
    return data::element(data::bytes_array(kinds));
  }};
  check_format(bytes, [&](const data::FileOptions& options) { return data::from_jsonl({"a"}, tokens, options); });
}

}  // namespace karez::tests
