// The interface of the readers of formats: the records of one file, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "karez/data/formats.h"
#include "karez/data/namespace.h"

namespace karez::data {

// Where a record begins. A reader that is opened at this place continues with the record, without those before it.
struct RecordPlace {
  std::int64_t number = 0;  // of the record, or of the line in a text, from 0
  std::int64_t byte = 0;    // in the file, unpacked
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The next record; nothing at the end of the file. Throws an error of the kind `data` for a damaged record.
  virtual std::optional<Element> next() = 0;
  virtual RecordPlace place() const = 0;  // of the next record
  // Whether `next` may be called after an error, and returns the record after the damaged one.
  virtual bool can_continue() const = 0;
};
using RecordReaderFactory = std::function<std::unique_ptr<RecordReader>(const std::string& path, RecordPlace place)>;

// The records of files, one file after the other. `name` is that of the function, such as "from_text"; `details` are
// options that are part of the data set's description.
Dataset from_records(std::string name, std::string details, std::vector<std::string> paths, RecordReaderFactory open,
                     FileOptions options);

// A dict of these keys, which each have one field.
StructureRef dict_structure(std::vector<std::string> keys);

}  // namespace karez::data
