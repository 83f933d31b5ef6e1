// Scans JSON with nlohmann-json's event parser, which keeps no tree and does not recurse.
#include "karez/data/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "karez/base/error.h"

namespace karez::data {
namespace {
using nlohmann::json;

class SaxHandler : public nlohmann::json_sax<json> {
 public:
  SaxHandler(std::string_view name, const std::function<void(const JsonEvent&)>& handle)
      : name_(name),
        handle_(handle) {}

  bool null() override { return emit({JsonKind::other}); }
  bool boolean(bool) override { return emit({JsonKind::other}); }
  bool number_integer(number_integer_t value) override { return emit({JsonKind::integer, {}, value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return emit({JsonKind::other});
    return emit({JsonKind::integer, {}, static_cast<std::int64_t>(value)});
  }
  bool number_float(number_float_t, const string_t&) override { return emit({JsonKind::other}); }
  bool string(string_t& text) override { return emit({JsonKind::text, text}); }
  bool binary(binary_t&) override { return emit({JsonKind::other}); }
  bool start_object(std::size_t) override { return emit({JsonKind::object}); }
  bool key(string_t& text) override { return emit({JsonKind::key, text}); }
  bool end_object() override { return emit({JsonKind::object_end}); }
  bool start_array(std::size_t) override { return emit({JsonKind::array}); }
  bool end_array() override { return emit({JsonKind::array_end}); }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    std::string_view message_text = error.what();
    message_text.remove_prefix(
        std::min(message_text.find("] ") + 2, message_text.size()));  // the number of the exception
    std::string excerpt(message_text.substr(0, 200));
    for (char& c : excerpt)
      if (static_cast<unsigned char>(c) >= 128) c = '?';  // the text may not be UTF-8, but a message must be
    fail(ErrorKind::data, name_, ": invalid JSON at byte ", position, ": ", excerpt);
  }

 private:
  bool emit(const JsonEvent& event) {
    handle_(event);
    return true;
  }
  std::string_view name_;
  const std::function<void(const JsonEvent&)>& handle_;
};

}  // namespace

void scan_json(std::string_view text, std::string_view name, const std::function<void(const JsonEvent&)>& handle) {
  SaxHandler events(name, handle);
  json::sax_parse(text.begin(), text.end(), &events);
}

std::string json_text(std::string_view text) {
  try {
    return json(std::string(text)).dump();
  } catch (const json::exception&) {
    fail(ErrorKind::data, "a string is not UTF-8, which JSON requires: ", text.substr(0, 200));
  }
}

}  // namespace karez::data
