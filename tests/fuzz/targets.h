// The fuzz targets: each takes any bytes; a fault is a crash, a hang, a giant allocation, a finding of a sanitizer, or
// a broken promise.
#pragma once

#include <span>
#include <string_view>

#include "tests/namespace.h"

namespace karez::tests {

// A parser refuses bytes by throwing Error; whatever else leaves `run` is a finding.
struct FuzzTarget {
  std::string_view name;  // of its file here and of its folder under seeds/
  void (*run)(std::string_view bytes);
};

void fuzz_graph(std::string_view bytes);
void fuzz_plan(std::string_view bytes);
void fuzz_idx(std::string_view bytes);
void fuzz_frames(std::string_view bytes);
void fuzz_handshake(std::string_view bytes);
void fuzz_store(std::string_view bytes);
void fuzz_safetensors(std::string_view bytes);

inline constexpr FuzzTarget fuzz_targets[] = {{"graph", fuzz_graph},
                                              {"plan", fuzz_plan},
                                              {"idx", fuzz_idx},
                                              {"frames", fuzz_frames},
                                              {"handshake", fuzz_handshake},
                                              {"store", fuzz_store},
                                              {"safetensors", fuzz_safetensors}};

// A promise that the bytes broke: neither an Error, which targets swallow, nor anything that code under test throws.
struct InvariantViolation {
  const char* what;
};
inline void check_invariant(bool kept, const char* what) {
  if (!kept) throw InvariantViolation{what};
}

}  // namespace karez::tests
