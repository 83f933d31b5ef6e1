// Text for errors about an unknown name: the number of known names and the most similar ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace karez::base {

// "there is none", "there is 1: a", "there are 3: a, b, c", "the nearest of 128 are: ..." with ten names. Names are
// sorted by Levenshtein's distance; one that contains the requested name has distance 1, and one with the same last
// dotted part has distance 2.
std::string suggest_names(std::string_view requested, std::vector<std::string> names);

// The same for items; `show` gives the name of an item.
template <class Items, class Show>
std::string suggest_names(std::string_view requested, const Items& items, Show show) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(show(item));
  return suggest_names(requested, std::move(names));
}

}  // namespace karez::base
