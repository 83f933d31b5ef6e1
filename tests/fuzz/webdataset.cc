// Fuzzes the reader of WebDataset, and through it libarchive, with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_webdataset(std::string_view bytes) {
  check_format(bytes, [](const data::FileOptions& options) { return data::from_webdataset({"a"}, options); });
}

}  // namespace karez::tests
