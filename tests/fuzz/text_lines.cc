// Fuzzes the reader of lines with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_text_lines(std::string_view bytes) {
  check_format(bytes, [](const data::FileOptions& options) { return data::from_text({"a"}, options); });
}

}  // namespace karez::tests
