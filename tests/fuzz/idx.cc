// Any bytes as an IDX file, plain or gzipped: refused with an Error, or as many bytes as the shape counts.
#include "karez/data/idx.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_idx(std::string_view bytes) {
  std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  for (int rank : {1, 3}) {  // labels and images
    try {
      IdxArray array = unpack_idx(file, rank, "a file");
      check_invariant(static_cast<int>(array.shape.size()) == rank, "an array has another rank than was asked for");
      check_invariant(count_of(array.shape) == static_cast<std::int64_t>(array.bytes.size()),
                      "an array's bytes are not as many as its shape counts");
    } catch (const Error&) {}
  }
}

}  // namespace karez::tests
