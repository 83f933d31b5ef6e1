// Suggests the ten names with the smallest edit distance.
#include "karez/base/suggest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "karez/base/text.h"

namespace karez::base {
namespace {

constexpr std::size_t max_names = 10;

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

std::size_t name_distance(std::string_view requested, std::string_view name) {
  if (!requested.empty() && name.find(requested) != name.npos) return 1;
  if (last_part(requested) == last_part(name)) return 2;
  return distance(requested, name);
}

}  // namespace

std::string suggest_names(std::string_view requested, std::vector<std::string> names) {
  if (names.empty()) return "there is none";
  std::vector<std::pair<std::size_t, std::string>> candidates;
  for (auto& name : names) candidates.emplace_back(name_distance(requested, name), std::move(name));
  std::sort(candidates.begin(), candidates.end());
  const std::size_t count = candidates.size();
  candidates.resize(std::min(count, max_names));
  const std::string list = join(
      candidates, ", ", [](const auto& n) -> const auto& { return n.second; });
  if (count > max_names) return cat("the nearest of ", count, " are: ", list);
  return cat(count == 1 ? "there is " : "there are ", count, ": ", list);
}

}  // namespace karez::base
