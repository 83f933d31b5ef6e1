// An element of a data stream: arrays or other objects, and the record that they come from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stream_state.h"
#include "karez/device/host_array.h"

namespace karez::data {

// A value that is not an array, such as a Python string. Only functions of the user look into it.
using Object = std::shared_ptr<const void>;

class BatchRows;
// How objects are stored in files and restored. Several threads may call the functions at the same time.
struct ObjectCodec {
  std::function<std::string(const Object&)> store = nullptr;
  std::function<Object(std::string_view bytes)> restore = nullptr;
};

// How the fields of an element are nested: the leaves are the fields, from left to right.
struct Structure {
  enum class Kind : std::uint8_t { leaf, tuple, list, dict };
  Kind kind = Kind::leaf;
  std::vector<std::string> keys = {};  // of a dict, one for each child
  std::vector<std::shared_ptr<const Structure>> children = {};
  bool operator==(const Structure& other) const;
};
using StructureRef = std::shared_ptr<const Structure>;
StructureRef leaf_structure();
StructureRef tuple_structure(std::vector<StructureRef> children);
std::int64_t leaves(const Structure& structure);
std::string print(const Structure& structure);  // "(*, {"x": *, "y": [*, *]})"

// An array, an object, or the objects of the rows of a batch.
using Field = std::variant<HostArray, Object, std::vector<Object>>;

struct Element {
  std::vector<Field> fields;
  StructureRef structure;  // never null
  // The record: its number in the source, and the number of the pass over the source. Random functions depend only on
  // these two and a seed. An element made from several records has those of the first.
  std::int64_t index = 0, epoch = 0;
  // The record was skipped: there are no fields. Functions of elements are not called for it, and it occupies a row of
  // weight 0 in a batch with weights, so that the other records keep their places.
  bool skipped = false;
  StreamStateRef state;  // the stream after this element; set by the stages
  // Of a batch in which rows may be missing: makes these rows (batch_rows.h). Usually null.
  std::shared_ptr<BatchRows> rows = nullptr;
};

// An element of one array, or a tuple of arrays.
Element element(HostArray array);
Element element(std::vector<HostArray> arrays);
// What a function of `map` returns to skip the record.
Element skipped_element();
std::int64_t array_bytes(const Element& element);                // of all its arrays
std::int64_t array_bytes(const std::vector<Element>& elements);  // of all elements
// The array in a field; throws if the field is another object or does not exist.
const HostArray& array_of(const Element& element, std::size_t field = 0);

}  // namespace karez::data
