// Files in memory, records as text, and a writer of TFRecord files for tests.
#include "karez/data/formats/test_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "karez/base/text.h"
#include "karez/data/stages/sequential_reader.h"

namespace karez::data {
namespace {

class MemoryStream : public ByteStream {
 public:
  MemoryStream(std::string bytes, std::size_t at, std::size_t piece)
      : bytes_(std::move(bytes)),
        at_(std::min(at, bytes_.size())),
        piece_(piece) {}
  std::size_t read(std::span<std::uint8_t> bytes) override {
    const std::size_t count = std::min({bytes.size(), piece_, bytes_.size() - at_});
    if (count > 0) std::memcpy(bytes.data(), bytes_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  std::size_t at_, piece_;
};

std::string print_array(const HostArray& array) {
  const auto count = static_cast<std::size_t>(array.count());
  if (array.dtype() == DType::u8 && array.view().rank() == 1)
    return quote({reinterpret_cast<const char*>(array.bytes()), count});
  std::vector<std::string> values;
  with_type(array.dtype(), [&]<class T>() {
    for (const T& value : array.data<T>()) {
      if constexpr (std::is_integral_v<T>) values.push_back(cat(static_cast<std::int64_t>(value)));
      else values.push_back(cat(static_cast<double>(value)));
    }
  });
  return cat(print(array.type()), "(", join(values, " "), ")");
}

std::string print_fields(const Structure& structure, const Element& element, std::size_t& next) {
  using Kind = Structure::Kind;
  if (structure.kind == Kind::leaf) return print_array(array_of(element, next++));
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < structure.children.size(); ++i)
    parts.push_back(cat(structure.kind == Kind::dict ? cat(structure.keys[i], ": ") : "",
                        print_fields(*structure.children[i], element, next)));
  const std::string inside = join(parts, ", ");
  return structure.kind == Kind::dict   ? cat("{", inside, "}")
         : structure.kind == Kind::list ? cat("[", inside, "]")
                                        : cat("(", inside, ")");
}

ReadRecords read_from(const Dataset& dataset, const RunStart& start, std::vector<StreamStateRef>* states) {
  ReadRecords out;
  try {
    SequentialReader reader(dataset);
    reader.start(start);
    while (std::optional<Element> element = reader.next()) {
      out.records.push_back(print_element(*element));
      if (states) states->push_back(element->state);
    }
  } catch (const Error& error) { out.error = error.what(); }
  return out;
}

}  // namespace

FileOpener memory_files(std::map<std::string, std::string> files, std::size_t piece) {
  return [files = std::move(files), piece](const std::string& path, std::int64_t offset) {
    return std::make_unique<MemoryStream>(files.at(path), static_cast<std::size_t>(offset), piece);
  };
}

std::string print_element(const Element& element) {
  std::size_t next = 0;
  return print_fields(*element.structure, element, next);
}

ReadRecords read_records(const Dataset& dataset, bool same_error) {
  std::vector<StreamStateRef> states;
  const ReadRecords all = read_from(dataset, {}, &states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ReadRecords rest = read_from(dataset, {0, parse_stream_state(print(states[i]))}, nullptr);
    EXPECT_EQ(rest.records,
              std::vector<std::string>(all.records.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.records.end()))
        << "from the position " << print(states[i]);
    if (same_error) { EXPECT_EQ(rest.error, all.error) << "from the position " << print(states[i]); }
    EXPECT_EQ(rest.error.empty(), all.error.empty()) << "from the position " << print(states[i]);
  }
  return all;
}

std::uint32_t bitwise_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

std::string tfrecord_file(const std::vector<std::string>& records) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = bitwise_crc32c(bytes);
    return little_endian<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
  };
  std::string out;
  for (const std::string& record : records) {
    const std::string length = little_endian<std::uint64_t>(record.size());
    out += length + masked(length) + record + masked(record);
  }
  return out;
}

}  // namespace karez::data
