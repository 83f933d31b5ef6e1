// Checks UTF-8 and parses JSON.
#include "karez/data/formats/simdjson_text.h"

#include <simdjson.h>

#include <limits>
#include <type_traits>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats/record_reader.h"

namespace karez::data {
namespace {

namespace dom = simdjson::dom;

// Numbers of one type in nested lists, which must have equal lengths at each depth.
template <class T> class NumberList {
 public:
  explicit NumberList(const JsonField& field) : field_(field) {}
  HostArray array(dom::element value) {
    add(value, 0);
    return HostArray::of<T>(shape_, values_);
  }

 private:
  void add(dom::element value, std::size_t depth) {
    if (value.type() != dom::element_type::ARRAY) {
      require(ErrorKind::data, !depth_is_known_ || depth == shape_.size(), what(),
              "its lists are not nested equally deep");
      depth_is_known_ = true;
      values_.push_back(number(value));
      return;
    }
    const dom::array items = value.get_array();
    const auto count = static_cast<std::int64_t>(items.size());
    if (depth == shape_.size()) {
      require(ErrorKind::data, !depth_is_known_, what(), "its lists are not nested equally deep");
      shape_.push_back(count);
    }
    require(ErrorKind::data, shape_[depth] == count, what(), "its lists have different lengths, ", shape_[depth],
            " and ", count);
    for (dom::element item : items) add(item, depth + 1);
    if (count == 0) depth_is_known_ = depth_is_known_ || depth + 1 == shape_.size();
  }
  T number(dom::element value) const {
    if constexpr (std::is_same_v<T, bool>) {
      bool out = false;
      require(ErrorKind::data, value.get_bool().get(out) == simdjson::SUCCESS, what(), "expected a bool");
      return out;
    } else if constexpr (std::is_integral_v<T>) {
      std::int64_t out = 0;
      require(ErrorKind::data, value.get_int64().get(out) == simdjson::SUCCESS, what(), "expected an integer");
      require(ErrorKind::data,
              out >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
                  out <= static_cast<std::int64_t>(std::numeric_limits<T>::max()),
              what(), "the integer ", out, " is out of range");
      return static_cast<T>(out);
    } else {
      double out = 0;
      require(ErrorKind::data, value.get_double().get(out) == simdjson::SUCCESS, what(), "expected a number");
      return static_cast<T>(out);
    }
  }
  std::string what() const {
    return cat("the field ", quote(field_.name), " cannot be read as ", name_of(*field_.dtype), ": ");
  }

  const JsonField& field_;
  Shape shape_;
  std::vector<T> values_;
  bool depth_is_known_ = false;
};

void walk_element(dom::element value, const std::function<void(const JsonToken&)>& handle) {
  using Kind = JsonToken::Kind;
  JsonToken token;
  switch (value.type()) {
    case dom::element_type::ARRAY:
      handle({.kind = Kind::list});
      for (dom::element item : dom::array(value)) walk_element(item, handle);
      handle({.kind = Kind::list_end});
      return;
    case dom::element_type::OBJECT:
      handle({.kind = Kind::dict});
      for (const auto& [key, item] : dom::object(value)) {
        handle({.kind = Kind::key, .text = key});
        walk_element(item, handle);
      }
      handle({.kind = Kind::dict_end});
      return;
    case dom::element_type::INT64: token.kind = Kind::integer, token.integer = value.get_int64(); break;
    case dom::element_type::UINT64:
      token.kind = Kind::unsigned_integer, token.unsigned_integer = value.get_uint64();
      break;
    case dom::element_type::DOUBLE: token.kind = Kind::number, token.number = value.get_double(); break;
    case dom::element_type::STRING: token.kind = Kind::text, token.text = value.get_string(); break;
    case dom::element_type::BOOL: token.kind = Kind::boolean, token.boolean = value.get_bool(); break;
    case dom::element_type::NULL_VALUE: break;
  }
  handle(token);
}

}  // namespace

std::size_t valid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return text.size();
  // Only for messages: the first character that is not valid.
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    const std::string_view character = text.substr(at, length);
    if (!simdjson::validate_utf8(character.data(), character.size())) break;
    at += character.size();
  }
  return at;
}

struct JsonParser::State {
  dom::parser parser;
  dom::element root;
};

JsonParser::JsonParser() : state_(std::make_unique<State>()) {}
JsonParser::~JsonParser() = default;

void JsonParser::parse(std::string_view text) {
  // The parser reads bytes after the end, so it makes a copy.
  const simdjson::error_code error = state_->parser.parse(text.data(), text.size(), true).get(state_->root);
  require(ErrorKind::data, error == simdjson::SUCCESS, "the line is not JSON: ", simdjson::error_message(error));
}

void JsonParser::walk(const std::function<void(const JsonToken&)>& handle) const { walk_element(state_->root, handle); }

HostArray JsonParser::field(const JsonField& field) const {
  dom::object object;
  require(ErrorKind::data, state_->root.get_object().get(object) == simdjson::SUCCESS,
          "the line is not a dict, but fields of it are read");
  dom::element value;
  bool found = false;
  for (const auto& [key, item] : object)
    if (key == field.name) value = item, found = true;  // the last one counts, as in Python
  if (!found) fail(ErrorKind::data, "the field ", quote(field.name), " is missing");
  if (!field.dtype) {
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS)
      fail(ErrorKind::data, "the field ", quote(field.name), " is not text");
    return bytes_array({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return with_type(*field.dtype, [&]<class T>() -> HostArray {
    if constexpr (std::is_arithmetic_v<T>) return NumberList<T>(field).array(value);
    else fail("from_jsonl: the dtype of a field must be f32, f64, i32, i64, u8 or bool, got ", name_of(*field.dtype));
  });
}

}  // namespace karez::data
