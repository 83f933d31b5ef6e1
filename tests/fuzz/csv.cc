// Fuzzes the reader of CSV, with columns and without a header, with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_csv(std::string_view bytes) {
  check_format(bytes, [](const data::FileOptions& options) { return data::from_csv({"a"}, {}, options); });
  data::CsvOptions columns;
  columns.columns = {{"x", DType::f32, {}}, {"i", DType::i32, -1}};
  check_format(bytes, [&](const data::FileOptions& options) { return data::from_csv({"a"}, columns, options); });
  columns = {.header = false, .names = {"a", "b"}};
  check_format(bytes, [&](const data::FileOptions& options) { return data::from_csv({"a"}, columns, options); });
}

}  // namespace karez::tests
