// Attributes: lookup, printing and parsing.
#include "karez/base/attrs.h"

#include <algorithm>
#include <cctype>

#include "karez/base/scanner.h"
#include "karez/base/text.h"

namespace karez::base {

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs&) = default;
Attrs::Attrs(Attrs&&) noexcept = default;
Attrs& Attrs::operator=(const Attrs&) = default;
Attrs& Attrs::operator=(Attrs&&) noexcept = default;
Attrs::~Attrs() = default;
bool Attrs::operator==(const Attrs&) const = default;
namespace {

std::string print_attr(const Attr& attr) {
  if (const auto* typed_value = std::get_if<bool>(&attr)) return *typed_value ? "true" : "false";
  if (const auto* typed_value = std::get_if<std::int64_t>(&attr)) return cat(*typed_value);
  if (const auto* typed_value = std::get_if<double>(&attr)) return number(*typed_value);
  if (const auto* typed_value = std::get_if<std::string>(&attr)) return quote(*typed_value);
  return cat("[", join(std::get<Ints>(attr), ", "), "]");
}

Attr parse_attr(Scanner& in) {
  if (in.accept("true")) return true;
  if (in.accept("false")) return false;
  if (in.peek("\"")) return in.quoted();
  if (in.accept("[")) {
    Ints values;
    while (!in.accept("]")) {
      if (!values.empty()) in.expect(",");
      values.push_back(in.integer());
    }
    return values;
  }
  Scanner integer_in = in;
  bool is_integer = false;
  double value = in.number(is_integer);
  if (!is_integer) return value;
  std::int64_t integer_value = integer_in.integer();  // all 64 bits, which a double would lose
  in = integer_in;
  return integer_value;
}

}  // namespace

Attrs::Attrs(std::initializer_list<Item> items) {
  items_.reserve(items.size() + 1);
  for (const Item& item : items) set(item.name, std::move(item.value));
}

Attrs& Attrs::set(std::string_view name, Attr value) & {
  bool is_word = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char c : name) is_word = is_word && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!is_word)
    fail("an attribute cannot be named ", quote(name),
         ": names consist of letters, digits and '_' and do not begin with a digit");  // so that their text parses
  auto at = std::lower_bound(items_.begin(), items_.end(), name,
                             [](const auto& item, std::string_view n) { return item.first < n; });
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::string(name), std::move(value));
  }
  return *this;
}

void Attrs::erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

const Attr* Attrs::find(std::string_view name) const {
  for (const auto& item : items_)
    if (item.first == name) return &item.second;
  return nullptr;
}

namespace {
template <class T> const T& typed(const Attr* attr, const Attrs& attr_list, std::string_view name, const char* kind) {
  if (attr == nullptr) fail("attribute '", name, "' is missing in ", attr_list.print());
  const T* value = std::get_if<T>(attr);
  if (value == nullptr) fail("attribute '", name, "' must be ", kind, ", got ", attr_list.print());
  return *value;
}
}  // namespace

bool Attrs::flag(std::string_view name) const { return typed<bool>(find(name), *this, name, "true or false"); }
bool Attrs::flag(std::string_view name, bool default_value) const { return has(name) ? flag(name) : default_value; }
std::int64_t Attrs::integer(std::string_view name) const {
  return typed<std::int64_t>(find(name), *this, name, "an integer");
}
std::int64_t Attrs::integer(std::string_view name, std::int64_t default_value) const {
  return has(name) ? integer(name) : default_value;
}
double Attrs::real(std::string_view name) const {
  const Attr* attr = find(name);
  if (attr != nullptr && std::holds_alternative<std::int64_t>(*attr))
    return static_cast<double>(std::get<std::int64_t>(*attr));
  return typed<double>(attr, *this, name, "a number");
}
double Attrs::real(std::string_view name, double default_value) const { return has(name) ? real(name) : default_value; }
const std::string& Attrs::text(std::string_view name) const {
  return typed<std::string>(find(name), *this, name, "a string");
}
std::string Attrs::text(std::string_view name, std::string_view default_value) const {
  return has(name) ? text(name) : std::string(default_value);
}
const Ints& Attrs::ints(std::string_view name) const {
  return typed<Ints>(find(name), *this, name, "a list of integers");
}

std::string Attrs::print() const {
  return cat("{", join(items_, ", ", [](const auto& item) { return cat(item.first, "=", print_attr(item.second)); }),
             "}");
}

Attrs Attrs::parse(Scanner& in) {
  Attrs out;
  in.expect("{");
  bool first = true;
  while (!in.accept("}")) {
    if (!first) in.expect(",");
    first = false;
    Scanner name_start = in;
    std::string name = in.word();
    if (out.has(name)) name_start.fail_here(cat("attribute '", name, "' is given twice"));
    in.expect("=");
    out.set(name, parse_attr(in));
  }
  return out;
}

Attrs Attrs::parse(std::string_view text) {
  Scanner in(text, "attributes");
  Attrs out = parse(in);
  if (!in.at_end()) in.fail_here("unexpected text after the attributes");
  return out;
}

}  // namespace karez::base
