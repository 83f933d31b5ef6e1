// Attributes: a small ordered map from names to a closed set of value kinds, with a text form that can be parsed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace karez::base {

class Scanner;

using Ints = std::vector<std::int64_t>;
using Attr = std::variant<bool, std::int64_t, double, std::string, Ints>;

// Prints as {axis=1, eps=1e-05, shape=[2, 3], to="f32"}. Names are sorted, so equal attributes have equal text.
class Attrs {
 public:
  Attrs();
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();
  struct Item {
    std::string_view name;
    mutable Attr value;  // moved into the attributes
  };
  Attrs(std::initializer_list<Item> items);

  Attrs& set(std::string_view name, Attr value) &;  // a name consists of letters, digits and '_'
  template <class T>
  requires std::is_arithmetic_v<T> Attrs& set(
      std::string_view name,
      T value) & {  // a template keeps the number's kind: an overload for int would convert bools and doubles too
    if constexpr (std::is_same_v<T, bool>) return set(name, Attr(value));
    else if constexpr (std::is_integral_v<T>) return set(name, Attr(static_cast<std::int64_t>(value)));
    else return set(name, Attr(static_cast<double>(value)));
  }
  Attrs& set(std::string_view name, const char* value) & { return set(name, Attr(std::string(value))); }
  template <class T> Attrs&& set(std::string_view name, T value) && { return std::move(set(name, std::move(value))); }
  void erase(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool empty() const { return items_.empty(); }
  const std::vector<std::pair<std::string, Attr>>& items() const { return items_; }

  // Typed reads. A missing name or a value of a different kind is an error that shows the attributes. If a default
  // value is given, it is returned for a missing name.
  bool flag(std::string_view name) const;
  bool flag(std::string_view name, bool default_value) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t default_value) const;
  double real(std::string_view name) const;  // also converts an integer
  double real(std::string_view name, double default_value) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view default_value) const;
  const Ints& ints(std::string_view name) const;

  std::string print() const;  // "{}" when empty
  static Attrs parse(std::string_view text);
  static Attrs parse(Scanner& in);  // consumes "{...}" and no more
  bool operator==(const Attrs&) const;

 private:
  const Attr* find(std::string_view name) const;
  std::vector<std::pair<std::string, Attr>> items_;
};

}  // namespace karez::base
