// Fuzzes the readers of .npy and .npz files with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_numpy_rows(std::string_view bytes) {
  check_format(bytes, [](const data::FileOptions& options) { return data::from_npy({"a"}, options); });
  check_format(
      bytes, [](const data::FileOptions& options) { return data::from_npz({"a"}, options); }, Compressed::yes);
}

}  // namespace karez::tests
