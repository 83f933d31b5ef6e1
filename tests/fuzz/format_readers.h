// For the fuzz targets of formats: reads a file of arbitrary bytes in several ways, which must agree.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/formats.h"
#include "karez/data/stages/element_record.h"
#include "karez/data/stages/sequential_reader.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

// Returns at most `piece` bytes at a time.
class FuzzStream : public data::ByteStream {
 public:
  FuzzStream(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
  std::size_t read(std::span<std::uint8_t> out) override {
    const std::size_t count = std::min({out.size(), piece_, bytes_.size()});
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
  std::size_t piece_;
};

// The options for reading these bytes as every file.
inline data::FileOptions fuzz_options(std::string_view bytes, std::size_t piece, data::OnError on_error) {
  data::FileOptions options;
  options.on_error = on_error;
  options.report = [](const data::SkippedRecords&) {};
  options.max_record_bytes = 1 << 16, options.max_file_bytes = 1 << 22;
  options.open = [bytes, piece](const std::string&, std::int64_t offset) {
    const auto skipped = static_cast<std::size_t>(std::clamp<std::int64_t>(offset, 0, std::ssize(bytes)));
    return std::make_unique<FuzzStream>(bytes.substr(skipped), piece);
  };
  return options;
}

struct FuzzRecords {
  std::vector<std::string> records;  // stored as by a snapshot, with their index
  std::vector<data::StreamStateRef> states;
  bool failed = false;
};
inline FuzzRecords read_fuzzed(const data::Dataset& dataset, data::StreamStateRef state = nullptr) {
  constexpr std::size_t most = 1000;  // rows of zero bytes may be without number
  FuzzRecords out;
  try {
    data::SequentialReader reader(dataset);
    reader.start({0, std::move(state)});
    while (std::optional<data::Element> element = reader.next()) {
      out.states.push_back(std::move(element->state));
      out.records.push_back(data::record_of(*element, {}));
      if (out.records.size() == most) break;
    }
  } catch (const Error&) { out.failed = true; }
  return out;
}

inline bool is_prefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// make(options) returns a data set of one file. If the file is compressed, the size of the pieces decides how much of
// a damaged part is unpacked before the error, so the records before it may be more or fewer.
enum class Compressed { no, yes };
template <class Make> void check_format(std::string_view bytes, Make make, Compressed compressed = Compressed::no) {
  const FuzzRecords all = read_fuzzed(make(fuzz_options(bytes, 1 << 20, data::OnError::raise)));
  const FuzzRecords pieces = read_fuzzed(make(fuzz_options(bytes, 3, data::OnError::raise)));
  const bool may_differ = compressed == Compressed::yes && all.failed;
  check_invariant(
      all.failed == pieces.failed &&
          (is_prefix(all.records, pieces.records) || (may_differ && is_prefix(pieces.records, all.records))) &&
          (may_differ || all.records.size() == pieces.records.size()),
      "a file read in pieces has other records");
  const FuzzRecords kept = read_fuzzed(make(fuzz_options(bytes, 1 << 20, data::OnError::skip)));
  check_invariant(!kept.failed, "a damaged record is not skipped");
  check_invariant(is_prefix(all.records, kept.records), "the records before an error differ if errors are skipped");
  for (const FuzzRecords* read : {&all, &kept}) {
    if (read->states.empty() || read->states.size() == 1000) continue;
    const std::size_t middle = read->states.size() / 2;
    const data::OnError on_error = read == &all ? data::OnError::raise : data::OnError::skip;
    const FuzzRecords rest = read_fuzzed(make(fuzz_options(bytes, 1 << 20, on_error)), read->states[middle]);
    check_invariant(rest.records == std::vector(read->records.begin() + static_cast<std::ptrdiff_t>(middle) + 1,
                                                read->records.end()),
                    "a stream that is resumed has other records");
  }
}

}  // namespace karez::tests
