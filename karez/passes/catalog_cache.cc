// Implements CatalogCache with keys that contain all fields of a call.
#include "karez/passes/catalog_cache.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace karez::passes {
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

std::string key_of(const CallSpec& call) {
  std::string key;
  key.reserve(256);
  put(key, std::string_view(call.op));
  put(key, std::string_view(call.device));
  put(key, std::int64_t{call.team});
  put(key, call.in);
  put(key, call.out);
  for (const auto& [name, value] : call.attrs.items()) {
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
  return key;
}

}  // namespace

std::optional<KernelChoice> CatalogCache::find(const CallSpec& call) const {
  std::string key = key_of(call);
  const auto known = choices_.find(key);
  if (known != choices_.end()) return known->second;
  return choices_.emplace(std::move(key), catalog_.find(call)).first->second;
}

std::optional<CallSpec> CatalogCache::suggest(const CallSpec& call) const {
  std::string key = key_of(call);
  const auto known = suggestions_.find(key);
  if (known != suggestions_.end()) return known->second;
  return suggestions_.emplace(std::move(key), catalog_.suggest(call)).first->second;
}

}  // namespace karez::passes
