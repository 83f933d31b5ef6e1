// Fuzzes the unpacking of gzip and zstd with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_compressed(std::string_view bytes) {
  for (const char* name : {"a.gz", "a.zst"})
    check_format(
        bytes, [&](const data::FileOptions& options) { return data::from_text({name}, options); }, Compressed::yes);
}

}  // namespace karez::tests
