// Whether text is UTF-8, and JSON documents as tokens and arrays. Only its source calls simdjson.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "karez/data/formats.h"
#include "karez/data/namespace.h"

namespace karez::data {

// The number of bytes at the beginning that are valid UTF-8.
std::size_t valid_utf8(std::string_view text);

class JsonParser {
 public:
  JsonParser();
  ~JsonParser();
  JsonParser(const JsonParser&) = delete;
  JsonParser& operator=(const JsonParser&) = delete;

  // Parses a document, which the other functions then read. Errors of all functions are of the kind `data` and say what
  // is wrong.
  void parse(std::string_view text);
  void walk(const std::function<void(const JsonToken&)>& handle) const;
  HostArray field(const JsonField& field) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez::data
