// What an error says when a name is unknown: how many names there are, and those that are nearest to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace karez::base {

// "there is none", "there is 1: a", "there are 3: a, b, c", "of 128 the nearest are: ..." with ten of them. Nearest
// first: by Levenshtein's distance; a name that holds the wanted one, or shares the last of its dotted parts, counts as
// near.
std::string suggest_names(std::string_view wanted, std::vector<std::string> names);

// The same of items, each shown as a name.
template <class Items, class Show> std::string suggest_names(std::string_view wanted, const Items& items, Show show) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(show(item));
  return suggest_names(wanted, std::move(names));
}

}  // namespace karez::base
