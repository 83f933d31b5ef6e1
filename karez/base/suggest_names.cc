// Suggestion of names: the ten with the smallest edit distance.
#include "karez/base/suggest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "karez/base/text.h"

namespace karez::base {
namespace {

constexpr std::size_t most = 10;

// Levenshtein's distance: the number of letters to insert, delete or replace.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }  // npos + 1 is 0

std::size_t name_distance(std::string_view wanted, std::string_view name) {
  if (!wanted.empty() && name.find(wanted) != name.npos) return 1;
  if (last_part(wanted) == last_part(name)) return 2;
  return distance(wanted, name);
}

}  // namespace

std::string suggest_names(std::string_view wanted, std::vector<std::string> names) {
  if (names.empty()) return "there is none";
  std::vector<std::pair<std::size_t, std::string>> near;
  for (auto& name : names) near.emplace_back(name_distance(wanted, name), std::move(name));
  std::sort(near.begin(), near.end());
  const std::size_t count = near.size();
  near.resize(std::min(count, most));
  const std::string list = join(
      near, ", ", [](const auto& n) -> const auto& { return n.second; });
  if (count > most) return cat("of ", count, " the nearest are: ", list);
  return cat(count == 1 ? "there is " : "there are ", count, ": ", list);
}

}  // namespace karez::base
