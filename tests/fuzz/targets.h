// Lists the fuzz targets. Each takes arbitrary bytes; a fault is a crash, a hang, a huge allocation, a sanitizer error,
// or a violated invariant.
#pragma once

#include <span>
#include <string_view>

#include "tests/namespace.h"

namespace karez::tests {

// A parser rejects bytes by throwing Error; any other exception from `run` is a fault.
struct FuzzTarget {
  std::string_view name;  // the name of its file and of its folder in seeds/
  void (*run)(std::string_view bytes);
};

void fuzz_graph(std::string_view bytes);
void fuzz_plan(std::string_view bytes);
void fuzz_idx(std::string_view bytes);
void fuzz_frames(std::string_view bytes);
void fuzz_handshake(std::string_view bytes);
void fuzz_store(std::string_view bytes);
void fuzz_safetensors(std::string_view bytes);
void fuzz_element_file(std::string_view bytes);
void fuzz_stream_state(std::string_view bytes);
void fuzz_image(std::string_view bytes);
void fuzz_wav(std::string_view bytes);
void fuzz_text_lines(std::string_view bytes);
void fuzz_jsonl(std::string_view bytes);
void fuzz_csv(std::string_view bytes);
void fuzz_tfrecord(std::string_view bytes);
void fuzz_webdataset(std::string_view bytes);
void fuzz_numpy_rows(std::string_view bytes);
void fuzz_compressed(std::string_view bytes);

inline constexpr FuzzTarget fuzz_targets[] = {{"graph", fuzz_graph},
                                              {"plan", fuzz_plan},
                                              {"idx", fuzz_idx},
                                              {"frames", fuzz_frames},
                                              {"handshake", fuzz_handshake},
                                              {"store", fuzz_store},
                                              {"safetensors", fuzz_safetensors},
                                              {"element_file", fuzz_element_file},
                                              {"stream_state", fuzz_stream_state},
                                              {"image", fuzz_image},
                                              {"wav", fuzz_wav},
                                              {"text_lines", fuzz_text_lines},
                                              {"jsonl", fuzz_jsonl},
                                              {"csv", fuzz_csv},
                                              {"tfrecord", fuzz_tfrecord},
                                              {"webdataset", fuzz_webdataset},
                                              {"numpy_rows", fuzz_numpy_rows},
                                              {"compressed", fuzz_compressed}};

// The exception for a violated invariant. It is not derived from Error, which targets catch, nor from any exception
// type of the tested code.
struct InvariantViolation {
  const char* invariant;
};
inline void check_invariant(bool holds, const char* invariant) {
  if (!holds) throw InvariantViolation{invariant};
}

}  // namespace karez::tests
