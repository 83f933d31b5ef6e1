// What a JSON text says, one thing after the other: nothing is built, so no text takes more memory than its reader
// keeps.
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
  std::string_view text = {};  // of a key or a text; it lives as long as the call
  std::int64_t integer = 0;
};

// Errors are of data and begin with `name`: text that is no JSON, with the place. What `take` throws ends the scan.
void scan_json(std::string_view text, std::string_view name, const std::function<void(const JsonEvent&)>& take);
// A text as JSON writes it, in quotes; one that is not UTF-8 is an error.
std::string json_text(std::string_view text);

}  // namespace karez::data
