// What does an expression outside of compiled functions cost? Evaluates 1,000 expressions of three operations on 100
// elements. Each expression contains a different number, and its result is read.
//
//   bench_interactive [--json FILE]
//
// Prints seconds for 1,000 expressions: the median of seven rounds after one that compiles. Target: 0.2 s. For
// comparison, a compiled function of the same three operations is called and read equally often; the difference is the
// cost of building the expression and finding its program.
#include <chrono>
#include <cstdio>
#include <vector>

#include "bench/report.h"
#include "karez/karez.h"

namespace {
using namespace karez;
using Clock = std::chrono::steady_clock;

constexpr int expressions = 1000, elements = 100, rounds = 7;
constexpr double target_seconds = 0.2;

template <class Expression> double median_seconds(Expression expression) {
  std::vector<double> times;
  double sum = 0;
  for (int round = 0; round <= rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < expressions; ++i) sum += expression(i);
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  require(sum == 8.0 * expressions * (expressions - 1) / 2, "the sum of the results is wrong: ", sum);
  return bench::median({times.begin() + 1, times.end()});
}

}  // namespace

int main(int count, char** words) {
  const std::string file = bench::json_option(count, words);
  World world;
  const DeviceMesh mesh = world.mesh();
  const Interactive interactive(mesh);
  const Array x = with_layout(full({elements}, 2), P(nullptr)).array(),
              y = with_layout(full({elements}, 1), P(nullptr)).array();
  const double lazy =
      median_seconds([&](int i) { return static_cast<double>((x * y * i - i).read().data<float>()[elements - 1]); });
  auto step = compile(mesh, [](Tensor a, Tensor b, Tensor c) { return a * b * c - c; });
  const double compiled = median_seconds([&](int i) {
    return static_cast<double>(step(x, y, static_cast<float>(i)).value().read().data<float>()[elements - 1]);
  });
  std::printf(
      "%d expressions of 3 operations on %d elements, each read: %.4f s (target %.1f); the same, compiled by hand: "
      "%.4f s\n",
      expressions, elements, lazy, target_seconds, compiled);
  bench::write_json(file, base::cat("{\"interactive_seconds\": ", lazy, ", \"compiled_seconds\": ", compiled, "}"));
  return lazy <= target_seconds ? 0 : 1;
}
