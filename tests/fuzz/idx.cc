// Fuzzes the IDX reader with arbitrary bytes, plain or gzipped. The reader must reject them with an Error, or return an
// array with as many bytes as its shape requires.
#include "karez/data/idx.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_idx(std::string_view bytes) {
  std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  for (int rank : {1, 3}) {  // labels and images
    try {
      IdxArray array = unpack_idx(file, rank, "a file");
      check_invariant(static_cast<int>(array.shape.size()) == rank,
                      "the rank of the array differs from the requested rank");
      check_invariant(count_of(array.shape) == static_cast<std::int64_t>(array.bytes.size()),
                      "the bytes of the array do not match its shape");
    } catch (const Error&) {}
  }
}

}  // namespace karez::tests
