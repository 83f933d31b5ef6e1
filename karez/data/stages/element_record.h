// An element as bytes: arrays with dtype and shape, objects as a codec stores them, structure, epoch and index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/element.h"

namespace karez::data {

// The bytes of an element without its state. An object is an error if the codec has no function for it.
std::string record_of(const Element& element, const ObjectCodec& codec);

// Where the bytes of a record are, for errors.
struct RecordPlace {
  std::string_view file = "a record";
  std::int64_t record = 0, at = 0;  // its number, and the offset of its first byte in the file
};
std::string print(const RecordPlace& place);  // "f.elements: record 2 at byte 160"

// The element of a record; its arrays are allocated from the pool. Throws a data error for any other bytes, before it
// allocates more memory than they need.
Element element_of(std::string_view bytes, const ObjectCodec& codec, ArrayPool& pool, const RecordPlace& place = {});

}  // namespace karez::data
