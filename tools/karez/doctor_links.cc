// Measures all pairs of ranks through the store: rank 0 names the next pair, and the pair returns its result.
#include "tools/karez/doctor_links.h"

#include <algorithm>
#include <chrono>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::tools {
namespace {

// The remaining pairs are left out after this multiple of the planned seconds: the first value if all measured links
// work, the second after a broken link.
constexpr double slow_links = 8, broken_links = 2;

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// Measures the pair; this rank is one of the two.
PairResult measure_pair(Peers& peers, std::pair<int, int> pair, double seconds) {
  const bool lower = peers.rank() == pair.first;
  PairResult out{pair.first, pair.second, "", {}, ""};
  try {
    const int other_rank = lower ? pair.second : pair.first;
    out.link = name_of(peers.link_class(other_rank));
    out.measure = measure_link(peers.connect(other_rank), 1, lower, seconds);
  } catch (const Error& error) { out.broken = error.what(); }
  return out;
}

}  // namespace

std::string print(const PairResult& result) {
  const LinkMeasure& m = result.measure;
  return cat(result.lower, "\n", result.higher, "\n", result.link, "\n", number_text(m.cost.alpha), "\n",
             number_text(m.cost.beta), "\n", number_text(m.clock), "\n", number_text(m.clock_error), "\n",
             result.broken);
}

PairResult parse_pair(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  require(ErrorKind::peer, lines.size() >= 8, "the result of a pair must have at least 8 lines, got ", lines.size());
  auto value = [&](std::size_t line) { return std::strtod(lines[line].c_str(), nullptr); };
  PairResult out{std::atoi(lines[0].c_str()),
                 std::atoi(lines[1].c_str()),
                 lines[2],
                 {{value(3), value(4)}, value(5), value(6)},
                 lines[7]};
  for (std::size_t line = 8; line < lines.size(); ++line) out.broken += "\n" + lines[line];
  return out;
}

std::vector<std::pair<int, int>> pairs_of(int ranks) {
  std::vector<std::pair<int, int>> out;
  for (int lower = 0; lower < ranks; ++lower)
    for (int higher = lower + 1; higher < ranks; ++higher)
      if (const int distance = higher - lower; ranks <= 32 || (distance & (distance - 1)) == 0)
        out.emplace_back(lower, higher);
  return out;
}

std::vector<PairResult> measure_pairs(StoreClient& store, Peers& peers, const std::vector<std::pair<int, int>>& pairs,
                                      double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const double pair_seconds = std::min(1.0, seconds / static_cast<double>(std::max<std::size_t>(pairs.size(), 1)));
  std::vector<PairResult> out;
  double limit = slow_links * seconds;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [lower, higher] = pairs[i];
    const std::string turn = cat("turn/", i), result = cat("result/", i, "/");
    if (peers.rank() == 0)
      store.set(turn, std::chrono::duration<double>(Clock::now() - begin).count() < limit ? "go" : "stop");
    if (store.wait(turn) == "stop") break;
    if (peers.rank() == lower || peers.rank() == higher) {
      const PairResult pair_result = measure_pair(peers, pairs[i], pair_seconds);
      store.set(cat(result, peers.rank()), print(pair_result));
    }
    if (peers.rank() != 0) continue;
    PairResult first = parse_pair(store.wait(cat(result, lower))), second = parse_pair(store.wait(cat(result, higher)));
    if (first.broken.empty()) first.broken = second.broken;
    if (!first.broken.empty()) limit = broken_links * seconds;
    out.push_back(std::move(first));
  }
  return out;
}

std::vector<std::pair<std::string, LinkCost>> class_costs(const std::vector<PairResult>& results) {
  std::vector<std::pair<std::string, LinkCost>> out;
  for (const char* name : {"shm", "tcp"}) {
    std::vector<double> alphas, betas;
    for (const PairResult& result : results)
      if (result.broken.empty() && result.link == name)
        alphas.push_back(result.measure.cost.alpha), betas.push_back(result.measure.cost.beta);
    if (alphas.empty()) continue;
    auto median = [](std::vector<double>& values) {
      std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
      return values[values.size() / 2];
    };
    out.emplace_back(name, LinkCost{median(alphas), median(betas)});
  }
  return out;
}

}  // namespace karez::tools
