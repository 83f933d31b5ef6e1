// ScopedValue: sets a variable for the lifetime of a scope.
#pragma once

#include <utility>

namespace karez {

// Sets a variable to a value, and restores the old value when the scope ends.
template <class T> class ScopedValue {
 public:
  ScopedValue(T& variable, T value) : variable_(variable), old_value_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(old_value_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T old_value_;
};

}  // namespace karez
