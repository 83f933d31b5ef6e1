// Writes the values of an element one after the other, and reads them again with a check of every size.
#include "karez/data/stages/element_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "karez/base/copy_bytes.h"

namespace karez::data {
namespace {

static_assert(std::endian::native == std::endian::little, "records contain numbers in little-endian order");

// The code of a dtype in a record is its place here, so the order must never change.
constexpr DType dtypes[] = {DType::f32, DType::f64,  DType::i32, DType::i64,
                            DType::b8,  DType::bf16, DType::f16, DType::u8};
enum class FieldKind : std::uint8_t { array, object, objects };
constexpr std::uint8_t skipped_code = 4;  // in place of the structure of a skipped element
constexpr int max_depth = 1000;           // of a structure, so that no record makes the reader run out of stack

template <class T> void put(std::string& out, T number) {
  static_assert(std::is_integral_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &number, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

void put_structure(std::string& out, const Structure& structure, int depth = 0) {
  require(depth <= max_depth, "an element whose structure is nested more than ", max_depth, " times cannot be stored");
  put(out, static_cast<std::uint8_t>(structure.kind));
  if (structure.kind == Structure::Kind::leaf) return;
  const bool is_dict = structure.kind == Structure::Kind::dict;
  require(!is_dict || structure.keys.size() == structure.children.size(), "a dict of an element has ",
          structure.children.size(), " values and ", structure.keys.size(), " keys");
  put(out, static_cast<std::uint64_t>(structure.children.size()));
  for (std::size_t i = 0; i < structure.children.size(); ++i) {
    if (is_dict) put_text(out, structure.keys[i]);
    put_structure(out, *structure.children[i], depth + 1);
  }
}

void put_array(std::string& out, const HostArray& array) {
  require(array.valid(), "an array that is not initialised cannot be stored");
  std::uint8_t code = 0;
  while (dtypes[code] != array.dtype()) ++code;
  put(out, code);
  put(out, static_cast<std::uint64_t>(array.shape().size()));
  for (std::int64_t size : array.shape()) put(out, size);
  out.append(reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(array.type().bytes()));
}

void put_field(std::string& out, const Field& field, const ObjectCodec& codec) {
  put(out, static_cast<std::uint8_t>(field.index()));
  if (const auto* array = std::get_if<HostArray>(&field)) return put_array(out, *array);
  require(ErrorKind::type, codec.store != nullptr,
          "an element with an object that is not an array cannot be stored without an ObjectCodec");
  if (const auto* object = std::get_if<Object>(&field)) return put_text(out, codec.store(*object));
  const auto& objects = std::get<std::vector<Object>>(field);
  put(out, static_cast<std::uint64_t>(objects.size()));
  for (const Object& object : objects) put_text(out, codec.store(object));
}

class RecordReader {
 public:
  RecordReader(std::string_view bytes, const ObjectCodec& codec, ArrayPool& pool, const RecordPlace& place)
      : bytes_(bytes),
        codec_(codec),
        pool_(pool),
        place_(place) {}

  Element read() {
    Element out;
    out.epoch = get<std::int64_t>("the epoch");
    out.index = get<std::int64_t>("the index");
    if (at_ < bytes_.size() && bytes_[at_] == static_cast<char>(skipped_code)) {
      ++at_;
      const Element skipped = skipped_element();
      out.structure = skipped.structure, out.skipped = true;
    } else {
      out.structure = structure(0);
    }
    check(leaves_ <= (bytes_.size() - at_) / 9, "the number of fields");  // a field has at least 9 bytes
    out.fields.reserve(leaves_);
    for (std::size_t i = 0; i < leaves_; ++i) out.fields.push_back(field());
    check(at_ == bytes_.size(), "the end of the record");
    return out;
  }

 private:
  // `what` begins at the next byte.
  void check(bool ok, std::string_view what) const {
    if (!ok)
      fail(ErrorKind::data, print(place_), " is damaged: ", what, " at byte ",
           place_.at + static_cast<std::int64_t>(at_), " is invalid");
  }
  template <class T> T peek(std::string_view what) const {
    check(bytes_.size() - at_ >= sizeof(T), what);
    T number{};
    std::memcpy(&number, bytes_.data() + at_, sizeof(T));
    return number;
  }
  template <class T> T get(std::string_view what) {
    const T number = peek<T>(what);
    at_ += sizeof(T);
    return number;
  }
  std::uint8_t get_code(std::string_view what, std::size_t codes) {
    check(peek<std::uint8_t>(what) < codes, what);
    return get<std::uint8_t>(what);
  }
  // A number of items, each of at least this many bytes.
  std::size_t get_count(std::string_view what, std::size_t item_bytes) {
    const auto number = peek<std::uint64_t>(what);
    check(number <= (bytes_.size() - at_ - sizeof(number)) / item_bytes, what);
    return get<std::uint64_t>(what);
  }
  std::string_view get_text(std::string_view what) {
    const std::size_t size = get_count(what, 1);
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  StructureRef structure(int depth) {
    using Kind = Structure::Kind;
    check(depth <= max_depth, "a structure that is nested more than 1000 times");
    const auto kind = static_cast<Kind>(get_code("the kind of a structure", 4));
    if (kind == Kind::leaf) {
      ++leaves_;
      return leaf_structure();
    }
    auto out = std::make_shared<Structure>();
    out->kind = kind;
    const std::size_t count = get_count("the number of items", kind == Kind::dict ? 9 : 1);
    for (std::size_t i = 0; i < count; ++i) {
      if (kind == Kind::dict) out->keys.emplace_back(get_text("a key"));
      out->children.push_back(structure(depth + 1));
    }
    return out;
  }

  Field field() {
    const auto kind = static_cast<FieldKind>(get_code("the kind of a field", 3));
    if (kind == FieldKind::array) return array();
    if (kind == FieldKind::object) return object();
    std::vector<Object> objects(get_count("the number of objects", 8));
    for (Object& row : objects) row = object();
    return objects;
  }

  Object object() {
    const std::string_view stored = get_text("an object");
    if (codec_.restore == nullptr)
      fail(ErrorKind::type, print(place_), " has an object, which cannot be restored without an ObjectCodec");
    return codec_.restore(stored);
  }

  HostArray array() {
    TensorType type{dtypes[get_code("a dtype", std::size(dtypes))], {}};
    type.shape.resize(get_count("the number of dimensions", 8));
    for (std::int64_t& size : type.shape) size = get<std::int64_t>("a size");
    const std::optional<std::int64_t> size = bytes_of(type);
    check(size && static_cast<std::uint64_t>(*size) <= bytes_.size() - at_, "an array");
    const std::string_view values = bytes_.substr(at_, static_cast<std::size_t>(*size));
    if (type.dtype == DType::b8)
      check(std::all_of(values.begin(), values.end(), [](char value) { return value == 0 || value == 1; }),
            "an array of bools");
    at_ += values.size();
    HostArray out = pool_.allocate(std::move(type));
    copy_bytes(out.bytes(), values.data(), values.size());
    return out;
  }
  // Nothing if a size is negative, or if the sizes or strides of the type overflow.
  static std::optional<std::int64_t> bytes_of(const TensorType& type) {
    std::int64_t bytes = size_of(type.dtype), product = bytes;
    for (std::int64_t size : type.shape) {
      if (size < 0 || __builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product)) return std::nullopt;
      bytes *= size;  // at most `product`
    }
    return bytes;
  }

  std::string_view bytes_;
  const ObjectCodec& codec_;
  ArrayPool& pool_;
  const RecordPlace& place_;
  std::size_t at_ = 0;
  std::size_t leaves_ = 0;
};

}  // namespace

std::string record_of(const Element& element, const ObjectCodec& codec) {
  require(
      element.structure != nullptr && leaves(*element.structure) == static_cast<std::int64_t>(element.fields.size()),
      "the structure of an element must have one leaf for each of its ", element.fields.size(), " fields");
  std::string out;
  put(out, element.epoch);
  put(out, element.index);
  if (element.skipped) put(out, skipped_code);
  else put_structure(out, *element.structure);
  for (const Field& field : element.fields) put_field(out, field, codec);
  return out;
}

std::string print(const RecordPlace& place) {
  return cat(place.file, ": record ", place.record, " at byte ", place.at);
}

Element element_of(std::string_view bytes, const ObjectCodec& codec, ArrayPool& pool, const RecordPlace& place) {
  return RecordReader(bytes, codec, pool, place).read();
}

}  // namespace karez::data
