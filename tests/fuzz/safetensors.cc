// Fuzzes the readers of safetensors files and of their index with arbitrary bytes. A reader must reject the bytes with
// an Error, or the tensors must cover the file, and the printed header must parse to an equal header.
#include "karez/data/safetensors.h"

#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_safetensors(std::string_view bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  try {
    const std::int64_t length = weight_header_bytes(bytes.substr(0, 8), size, "a file");
    WeightHeader header = parse_weight_header(bytes.substr(8, static_cast<std::size_t>(length)), size, "a file");
    std::int64_t at = 0;
    for (const WeightEntry& entry : header.entries) {
      check_invariant(entry.begin == at, "a tensor does not begin at the end of the previous one");
      check_invariant(entry.end - entry.begin == checked_mul(count_of(entry.shape), item_bytes(entry.dtype)),
                      "the bytes of a tensor do not match its type");
      at = entry.end;
    }
    check_invariant(8 + length + at == size, "the last tensor does not end at the end of the file");
    const bool checked = !header.entries.empty() && header.entries[0].checksum.has_value();
    const std::string head = checked ? print_checked_header(header.entries, header.notes)
                                     : print_weight_header(header.entries, header.notes);
    const WeightHeader again =
        parse_weight_header(std::string_view(head).substr(8), static_cast<std::int64_t>(head.size()) + at, "its print");
    check_invariant(again.entries == header.entries && again.notes == header.notes,
                    "a printed header parses to a different header");
  } catch (const Error&) {}
  try {
    for (const auto& [name, file] : parse_weight_index(bytes, "an index"))
      check_invariant(!file.empty() && file != ".." && file.find('/') == file.npos && file.find('\0') == file.npos,
                      "a file of the index may be in another folder");
  } catch (const Error&) {}
}

}  // namespace karez::tests
