// JSON as a sequence of events: no tree is built, so a text needs no more memory than its reader keeps.
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
};  // other: null, bool, any further number

struct JsonEvent {
  JsonKind kind = JsonKind::other;
  std::string_view text = {};  // of a key or a text; valid during the call
  std::int64_t integer = 0;
};

// Invalid JSON is a data error that begins with `name` and has the position. An exception from `take` ends the scan.
void scan_json(std::string_view text, std::string_view name, const std::function<void(const JsonEvent&)>& take);
// A string as JSON text, in quotes; one that is not UTF-8 is an error.
std::string json_text(std::string_view text);

}  // namespace karez::data
