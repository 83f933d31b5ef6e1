// Writes the fields of a call into a key.
#include "karez/plan/call_key.h"

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace karez::plan {
namespace {

void put(std::string& key, std::int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
void put(std::string& key, std::string_view text) {
  put(key, static_cast<std::int64_t>(text.size()));
  key += text;
}
void put(std::string& key, const Ints& numbers) {
  put(key, static_cast<std::int64_t>(numbers.size()));
  key.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(numbers[0]));
}
void put(std::string& key, double number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); }

void put(std::string& key, const std::vector<View>& views) {
  put(key, static_cast<std::int64_t>(views.size()));
  for (const View& view : views) {
    put(key, static_cast<std::int64_t>(view.dtype));
    put(key, view.shape);
    put(key, view.strides);
  }
}

}  // namespace

void append_attrs(std::string& key, const Attrs& attrs) {
  put(key, static_cast<std::int64_t>(attrs.items().size()));
  for (const auto& [name, value] : attrs.items()) {
    put(key, std::string_view(name));
    put(key, static_cast<std::int64_t>(value.index()));
    std::visit(
        [&](const auto& content) {
          using T = std::decay_t<decltype(content)>;
          if constexpr (std::is_same_v<T, bool>) put(key, std::int64_t{content});
          else if constexpr (std::is_same_v<T, std::string>) put(key, std::string_view(content));
          else put(key, content);
        },
        value);
  }
}

std::string call_key(const CallSpec& call) {
  std::string key;
  key.reserve(256);
  put(key, std::string_view(call.op));
  put(key, std::string_view(call.device));
  put(key, std::int64_t{call.team});
  put(key, call.in);
  put(key, call.out);
  append_attrs(key, call.attrs);
  return key;
}

}  // namespace karez::plan
