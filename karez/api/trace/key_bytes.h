// Functions that append values to the bytes of a key. Lists and texts begin with their length, so that different values
// never have equal bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "karez/tensor/tensor.h"

namespace karez::key {

template <class T>
requires std::is_scalar_v<T>
void put(std::string& key, T value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
inline void put(std::string& key, std::string_view text) {
  put(key, text.size());
  key += text;
}
inline void put(std::string& key, std::span<const std::int64_t> numbers) {
  put(key, numbers.size());
  key.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}
inline void put(std::string& key, tensor::DType dtype, const tensor::Shape& shape) {
  put(key, dtype);
  put(key, std::span<const std::int64_t>(shape));
}

}  // namespace karez::key
