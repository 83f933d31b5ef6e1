// Reads JSON as a sequence of events. No tree is built, so the only memory used is for what the handler keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"

namespace karez::data {

enum class JsonKind : std::uint8_t {
  object,
  object_end,
  array,
  array_end,
  key,
  text,
  integer,
  other
};  // other: null, bool, or a number that is not a 64-bit integer

struct JsonEvent {
  JsonKind kind = JsonKind::other;
  std::string_view text = {};  // the text of a key or string; valid during the call
  std::int64_t integer = 0;
};

// If the JSON is invalid, throws a data error that contains `name` and the position of the fault. An exception from
// `handle` ends the scan.
void scan_json(std::string_view text, std::string_view name, const std::function<void(const JsonEvent&)>& handle);
// Formats a string as JSON text, in quotes; a string that is not UTF-8 is an error.
std::string json_text(std::string_view text);

}  // namespace karez::data
