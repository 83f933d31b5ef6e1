// The entry point of libFuzzer; the build defines its target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    karez::tests::KAREZ_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  } catch (const karez::tests::InvariantViolation& violation) {
    std::fprintf(stderr, "%s\n", violation.invariant);
    std::abort();
  }
  return 0;
}
