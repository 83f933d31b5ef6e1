// Writes elements into messages and reads them, without the interpreter's lock as long as they consist of arrays.
#include "python/src/element_message.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace karez::python {
namespace {

using data::Element;
using data::Field;
using data::Object;
using data::Structure;
using data::StructureRef;

std::uint64_t aligned(std::uint64_t position, std::uint64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

nb::object worker_functions(const char* name) { return nb::module_::import_("karez.data.workers").attr(name); }

class BodyWriter {
 public:
  BodyWriter(const Element& element, const SharedRegion& region, std::string& body)
      : element_(element),
        region_(region),
        body_(body),
        next_(region.begin) {}

  void write(const Structure& structure) {
    if (structure.kind == Structure::Kind::leaf) return write_field(element_.fields[field_++]);
    put<char>(structure.kind == Structure::Kind::tuple ? 't' : structure.kind == Structure::Kind::list ? 'l' : 'd');
    put(static_cast<std::uint32_t>(structure.children.size()));
    for (const std::string& key : structure.keys) {
      put(static_cast<std::uint32_t>(key.size()));
      body_ += key;
    }
    for (const StructureRef& child : structure.children) write(*child);
  }
  std::uint64_t next() const { return next_; }

 private:
  template <class T> void put(T value) { body_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void write_field(const Field& field) {
    if (const auto* array = std::get_if<HostArray>(&field)) return write_array(*array);
    const std::string stored = with_gil([&] {
      nb::object value;
      if (const auto* object = std::get_if<Object>(&field)) {
        value = nb::borrow(handle_of(*object));
      } else {
        nb::list rows;
        for (const Object& row : std::get<std::vector<Object>>(field)) rows.append(handle_of(row));
        value = worker_functions("rows")(rows);
      }
      const auto bytes = nb::cast<nb::bytes>(worker_functions("dumps")(value));
      return std::string(bytes.c_str(), bytes.size());
    });
    put('o');
    const bool shared = static_cast<std::int64_t>(stored.size()) > largest_inline;
    put(static_cast<std::uint8_t>(shared));
    put(static_cast<std::uint64_t>(stored.size()));
    if (shared) put(store(stored.data(), stored.size()));
    else body_ += stored;
  }
  void write_array(const HostArray& array) {
    const std::int64_t bytes = array.type().bytes();
    const bool shared = bytes > largest_inline;
    put('a');
    put(static_cast<std::uint8_t>(array.dtype()));
    put(static_cast<std::uint8_t>(array.shape().size()));
    put(static_cast<std::uint8_t>(shared));
    for (std::int64_t size : array.shape()) put(size);
    if (shared) return put(store(array.bytes(), static_cast<std::size_t>(bytes)));
    body_.resize(aligned(body_.size(), 16));
    body_.append(reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(bytes));
  }
  std::uint64_t store(const void* bytes, std::size_t size) {
    const std::uint64_t position = aligned(next_, 64);
    require(ErrorKind::data, size <= region_.end - region_.begin && position + size <= region_.end,
            "an element for a worker process may have at most ", region_.end - region_.begin,
            " bytes, got more; pass processes=False");
    std::memcpy(region_.memory + position, bytes, size);
    next_ = position + size;
    return position;
  }

  const Element& element_;
  const SharedRegion& region_;
  std::string& body_;
  std::uint64_t next_;
  std::size_t field_ = 0;
};

// An array of copied bytes.
HostArray array_of_bytes(TensorType type, const void* bytes) {
  const auto size = static_cast<std::size_t>(type.bytes());
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(aligned(size, 64), 64)));
  require(ErrorKind::device, memory != nullptr, "no memory for an array of ", size, " bytes");
  std::shared_ptr<std::byte[]> owner(memory, [](std::byte* p) { std::free(p); });
  if (size > 0) std::memcpy(memory, bytes, size);
  return HostArray(std::move(type), std::move(owner));
}

class BodyReader {
 public:
  BodyReader(std::string_view body, std::span<const std::byte> memory) : body_(body), memory_(memory) {}

  StructureRef read(Element& element) {
    const char kind = get<char>();
    if (kind == 'a') element.fields.emplace_back(read_array());
    else if (kind == 'o') pickles_.emplace_back(element.fields.size(), read_pickle()), element.fields.emplace_back();
    if (kind == 'a' || kind == 'o') return data::leaf_structure();
    require(ErrorKind::data, kind == 't' || kind == 'l' || kind == 'd',
            "a worker process sent a message that is no element");
    auto structure = std::make_shared<Structure>();
    structure->kind = kind == 't'   ? Structure::Kind::tuple
                      : kind == 'l' ? Structure::Kind::list
                                    : Structure::Kind::dict;
    const auto count = get<std::uint32_t>();
    if (kind == 'd')
      for (std::uint32_t i = 0; i < count; ++i) structure->keys.emplace_back(take(get<std::uint32_t>()));
    for (std::uint32_t i = 0; i < count; ++i) structure->children.push_back(read(element));
    return structure;
  }
  // Call last: makes the objects of the pickles that were read.
  void read_objects(Element& element) const {
    if (pickles_.empty()) return;
    with_gil([&] {
      const nb::object loads = worker_functions("loads");
      for (const auto& [field, stored] : pickles_)
        element.fields[field] = hold(loads(nb::bytes(stored.data(), stored.size())));
    });
  }

 private:
  std::string_view take(std::size_t size) {
    require(ErrorKind::data, size <= body_.size() - at_, "a worker process sent a message that is too short");
    at_ += size;
    return body_.substr(at_ - size, size);
  }
  template <class T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_shared(std::uint64_t size) {
    const auto position = get<std::uint64_t>();
    require(ErrorKind::data, position <= memory_.size() && size <= memory_.size() - position,
            "a worker process sent a position outside of the shared memory");
    return {reinterpret_cast<const char*>(memory_.data()) + position, size};
  }
  HostArray read_array() {
    TensorType type;
    const auto dtype = get<std::uint8_t>();
    require(ErrorKind::data, dtype < std::size(tensor::all_dtypes), "a worker process sent an unknown dtype ",
            static_cast<int>(dtype));
    type.dtype = static_cast<DType>(dtype);
    type.shape.resize(get<std::uint8_t>());
    const bool shared = get<std::uint8_t>() != 0;
    for (std::int64_t& size : type.shape) size = get<std::int64_t>();
    const auto bytes = static_cast<std::uint64_t>(type.bytes());
    if (shared) return array_of_bytes(type, take_shared(bytes).data());
    take(aligned(at_, 16) - at_);
    return array_of_bytes(type, take(bytes).data());
  }
  std::string_view read_pickle() {
    const bool shared = get<std::uint8_t>() != 0;
    const auto size = get<std::uint64_t>();
    return shared ? take_shared(size) : take(size);
  }

  std::string_view body_;
  std::span<const std::byte> memory_;
  std::size_t at_ = 0;
  std::vector<std::pair<std::size_t, std::string_view>> pickles_;  // the number of the field
};

}  // namespace

std::uint64_t write_element(const Element& element, const SharedRegion& region, std::string& body) {
  BodyWriter writer(element, region, body);
  writer.write(*element.structure);
  return writer.next();
}

Element read_reply(char status, std::string_view body, std::span<const std::byte> memory) {
  if (status == 's') {
    if (!body.empty())
      with_gil([&] {
        nb::module_::import_("karez.data.skipped_record").attr("count_stored")(nb::bytes(body.data(), body.size()));
      });
    return data::skipped_element();
  }
  if (status == 'p')
    return with_gil([&] { return element_from(worker_functions("loads")(nb::bytes(body.data(), body.size()))); });
  Element element;
  BodyReader reader(body, memory);
  element.structure = reader.read(element);
  reader.read_objects(element);
  return element;
}

}  // namespace karez::python
