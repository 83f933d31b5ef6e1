// Ids: integers with a distinct type for each kind of object; -1 means none.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>

namespace karez::base {

template <class Tag> struct Id {
  int index = -1;
  constexpr Id() = default;
  constexpr explicit Id(int i) : index(i) {}
  constexpr explicit Id(std::size_t i) : index(static_cast<int>(i)) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.index; }
};

}  // namespace karez::base

template <class Tag> struct std::hash<karez::base::Id<Tag>> {
  std::size_t operator()(karez::base::Id<Tag> id) const noexcept { return std::hash<int>()(id.index); }
};
