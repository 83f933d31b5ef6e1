// Parses tf.train.Example, a message of protocol buffers:
//
//   Example { 1: Features { 1: repeated { 1: name, 2: Feature { 1: BytesList | 2: FloatList | 3: Int64List } } } }
//
// Each list has the field 1, repeated; numbers may be packed.
#include <bit>
#include <cstring>
#include <map>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/stream_buffer.h"
#include "karez/data/formats/text_lines.h"

namespace karez::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Reads the fields of a message, one after the other. Bytes are counted from the beginning of the outermost message.
class Message {
 public:
  Message(Bytes bytes, std::size_t offset) : bytes_(bytes), offset_(offset) {}

  // Reads the next key; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t key = varint();
    field = key >> 3, wire = static_cast<int>(key & 7);
    check(field > 0, "a field has the number 0");
    return true;
  }
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      check(at_ < bytes_.size(), "the message ends within a number");
      const std::uint8_t byte = bytes_[at_++];
      out |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return out;
    }
    check(false, "a number has more than 10 bytes");
    return out;
  }
  Message message() {
    const std::uint64_t count = varint();
    check(count <= bytes_.size() - at_, "a field is longer than the message that contains it");
    const std::size_t begin = take(static_cast<std::size_t>(count));
    return {bytes_.subspan(begin, at_ - begin), offset_ + begin};
  }
  float fixed32() {
    float out;
    std::memcpy(&out, bytes_.data() + take(4), 4);
    return out;
  }
  void skip() {
    switch (wire) {
      case 0: varint(); return;
      case 1: take(8); return;
      case 2: message(); return;
      case 5: take(4); return;
      default: check(false, cat("a field has the unsupported wire type ", wire));
    }
  }
  bool at_end() const { return at_ == bytes_.size(); }
  Bytes bytes() const { return bytes_; }
  std::size_t offset() const { return offset_; }
  void check(bool ok, std::string_view what) const {
    require(ErrorKind::data, ok, "this is not a tf.train.Example: ", what, ", at byte ", offset_ + at_,
            " of the record");
  }

  std::uint64_t field = 0;
  int wire = 0;

 private:
  std::size_t take(std::size_t count) {
    check(count <= bytes_.size() - at_, "the message ends within a field");
    return std::exchange(at_, at_ + count);
  }
  Bytes bytes_;
  std::size_t offset_, at_ = 0;
};

struct Feature {
  enum class Kind : std::uint8_t { none, bytes, floats, integers };
  Kind kind = Kind::none;
  std::vector<Bytes> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};

void read_list(Message list, Feature& out) {
  while (list.next()) {
    if (list.field != 1) {
      list.skip();
    } else if (out.kind == Feature::Kind::bytes) {
      list.check(list.wire == 2, "a value of a bytes_list has another type");
      out.bytes.push_back(list.message().bytes());
    } else if (out.kind == Feature::Kind::floats) {
      list.check(list.wire == 2 || list.wire == 5, "a value of a float_list has another type");
      if (list.wire == 5) out.floats.push_back(list.fixed32());
      else
        for (Message packed = list.message(); !packed.at_end();) out.floats.push_back(packed.fixed32());
    } else {
      list.check(list.wire == 2 || list.wire == 0, "a value of an int64_list has another type");
      if (list.wire == 0) out.integers.push_back(static_cast<std::int64_t>(list.varint()));
      else
        for (Message packed = list.message(); !packed.at_end();)
          out.integers.push_back(static_cast<std::int64_t>(packed.varint()));
    }
  }
}

// Several lists of one kind are appended, and a list of another kind replaces those before it.
void read_feature(Message feature, Feature& out) {
  while (feature.next()) {
    if (feature.field > 3) {
      feature.skip();
      continue;
    }
    feature.check(feature.wire == 2, "a list of values has another type");
    const auto kind = static_cast<Feature::Kind>(feature.field);
    if (kind != out.kind) out = {kind, {}, {}, {}};
    read_list(feature.message(), out);
  }
}

using Features = std::map<std::string, Feature, std::less<>>;

void read_entry(Message entry, Features& out) {
  std::string name;
  Feature feature;
  while (entry.next()) {
    if (entry.field > 2) {
      entry.skip();
      continue;
    }
    entry.check(entry.wire == 2, "a feature or its name has another type");
    const Message part = entry.message();
    if (entry.field == 2) {
      read_feature(part, feature);
    } else {
      check_utf8(text_of(part.bytes()), "the name of a feature", static_cast<std::int64_t>(part.offset()));
      name = text_of(part.bytes());
    }
  }
  out[name] = std::move(feature);  // the last one with a name counts
}

template <class T> HostArray array_from(const std::vector<T>& values) {
  return HostArray::of<T>({std::ssize(values)}, values);
}

}  // namespace

Element parse_example(std::span<const std::uint8_t> bytes) {
  Features features;
  Message example(bytes, 0);
  while (example.next()) {
    if (example.field != 1) {
      example.skip();
      continue;
    }
    example.check(example.wire == 2, "its features have another type");
    Message list = example.message();
    while (list.next()) {
      if (list.field == 1 && list.wire == 2) read_entry(list.message(), features);
      else list.skip();
    }
  }
  Element out;
  auto structure = std::make_shared<Structure>();
  structure->kind = Structure::Kind::dict;
  for (const auto& [name, feature] : features) {
    if (feature.kind == Feature::Kind::none) continue;
    structure->keys.push_back(name);
    StructureRef child = leaf_structure();
    if (feature.kind == Feature::Kind::floats) {
      out.fields.emplace_back(array_from(feature.floats));
    } else if (feature.kind == Feature::Kind::integers) {
      out.fields.emplace_back(array_from(feature.integers));
    } else {
      auto list = std::make_shared<Structure>();
      list->kind = Structure::Kind::list;
      list->children.assign(feature.bytes.size(), leaf_structure());
      for (const Bytes& value : feature.bytes) out.fields.emplace_back(bytes_array(value));
      child = std::move(list);
    }
    structure->children.push_back(std::move(child));
  }
  out.structure = std::move(structure);
  return out;
}

}  // namespace karez::data
