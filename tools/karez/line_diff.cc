// Finds line differences by Hirschberg's divide and conquer.
#include "tools/karez/line_diff.h"

#include <algorithm>
#include <map>
#include <span>

#include "karez/base/text.h"

namespace karez::tools {
namespace {

using LineIds = std::span<const int>;  // equal lines have equal numbers

// Entry j is the length of the longest common subsequence of a and the first j lines of b. With `backward`, both are
// read from the end.
std::vector<int> common_lengths(LineIds a, LineIds b, bool backward) {
  std::vector<int> previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int line = a[backward ? a.size() - 1 - i : i];
    for (std::size_t j = 0; j < b.size(); ++j)
      current[j + 1] =
          line == b[backward ? b.size() - 1 - j : j] ? previous[j] + 1 : std::max(previous[j + 1], current[j]);
    std::swap(previous, current);
  }
  return previous;
}

// Marks the lines that both texts keep. `at_a` and `at_b` are the positions of a and b in the texts.
void keep_common(LineIds a, LineIds b, std::vector<char>& kept_a, std::vector<char>& kept_b, std::size_t at_a,
                 std::size_t at_b) {
  for (; !a.empty() && !b.empty() && a.front() == b.front(); ++at_a, ++at_b, a = a.subspan(1), b = b.subspan(1))
    kept_a[at_a] = kept_b[at_b] = 1;
  for (; !a.empty() && !b.empty() && a.back() == b.back(); a = a.first(a.size() - 1), b = b.first(b.size() - 1))
    kept_a[at_a + a.size() - 1] = kept_b[at_b + b.size() - 1] = 1;
  if (a.empty() || b.empty()) return;
  if (a.size() == 1) {
    auto same = std::find(b.begin(), b.end(), a[0]);
    if (same != b.end()) kept_a[at_a] = kept_b[at_b + static_cast<std::size_t>(same - b.begin())] = 1;
    return;
  }
  const std::size_t middle = a.size() / 2;
  const std::vector<int> prefix_lengths = common_lengths(a.first(middle), b, false),
                         suffix_lengths = common_lengths(a.subspan(middle), b, true);
  std::size_t best_split = 0;
  for (std::size_t j = 1; j <= b.size(); ++j)
    if (prefix_lengths[j] + suffix_lengths[b.size() - j] >
        prefix_lengths[best_split] + suffix_lengths[b.size() - best_split])
      best_split = j;
  keep_common(a.first(middle), b.first(best_split), kept_a, kept_b, at_a, at_b);
  keep_common(a.subspan(middle), b.subspan(best_split), kept_a, kept_b, at_a + middle, at_b + best_split);
}

std::vector<std::string> lines_of(std::string_view text) {
  auto lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

std::vector<LineChange> line_diff(std::string_view first, std::string_view second) {
  const auto a = lines_of(first), b = lines_of(second);
  std::map<std::string_view, int> id_by_line;
  auto numbers = [&](const std::vector<std::string>& lines) {
    std::vector<int> out;
    out.reserve(lines.size());
    for (const std::string& line : lines)
      out.push_back(id_by_line.emplace(line, static_cast<int>(id_by_line.size())).first->second);
    return out;
  };
  const auto ids_a = numbers(a), ids_b = numbers(b);
  std::vector<char> kept_a(a.size()), kept_b(b.size());
  keep_common(ids_a, ids_b, kept_a, kept_b, 0, 0);
  std::vector<LineChange> out;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size(); ++i, ++j) {
    for (; i < a.size() && !kept_a[i]; ++i) out.push_back({false, i + 1, a[i]});
    for (; j < b.size() && !kept_b[j]; ++j) out.push_back({true, j + 1, b[j]});
  }
  return out;
}

}  // namespace karez::tools
