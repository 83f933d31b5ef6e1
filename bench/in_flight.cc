// Do launches overlap with the caller's work and with a slow source? Several launches are in flight, and a separate
// thread reads a slow source.
//
//   bench_in_flight [--json FILE]
//
// Measures a step of 5 ms (an op that spins, with a team of 1) alone, then with 5 ms of work by the caller between the
// calls, then with a source that spins for 4 ms in each read. Runs of 40 steps alternate, and the median counts.
// Target: 5.5 ms per step with the caller's work and with the slow source.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/report.h"
#include "karez/karez.h"

namespace {
using namespace karez;
using bench::median;
using Clock = std::chrono::steady_clock;

constexpr double step_ms = 5, caller_ms = 5, source_ms = 4, target_ms = 5.5;
constexpr int steps = 40, pairs = 7;

void spin(double milliseconds) {
  for (const auto end = Clock::now() + std::chrono::duration<double, std::milli>(milliseconds); Clock::now() < end;)
    continue;
}

OpDef spinning_op() {
  OpDef op;
  op.name = "spinning";
  op.doc = "Returns x after a delay.";
  op.inputs = 1;
  op.index = "i -> i";
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  return op;
}

KernelRow spinning_kernel() {
  KernelRow row;
  row.name = "bench.spinning";
  row.op = "spinning";
  row.supports = [](const CallSpec&) { return true; };
  row.prepare = [](const CallSpec& c) -> PreparedKernel {
    return [bytes = static_cast<std::size_t>(c.out[0].bytes())](const KernelArgs& args) {
      spin(step_ms);
      std::memcpy(args.out[0], args.in[0], bytes);
    };
  };
  return row;
}

// The batch at position p is p; each read spins.
class SlowSource : public Source {
 public:
  explicit SlowSource(double milliseconds) : milliseconds_(milliseconds) {}
  TensorType type() const override { return {DType::f32, {1}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    spin(milliseconds_);
    out.as<float>()[0] = static_cast<float>(position);
  }

 private:
  double milliseconds_;
};

}  // namespace

int main(int count, char** words) {
  const std::string json = bench::json_option(count, words);
  World world({.team = 1, .ops = {spinning_op()}, .kernels = {spinning_kernel()}});
  auto step = compile(world.mesh(), [](Tensor x) { return apply("spinning", {x}); });

  // Returns milliseconds per step; every result is checked.
  auto run = [&](double caller_work, double source) {
    auto spinning_source = std::make_shared<SlowSource>(source);
    std::vector<Future> results;
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      results.push_back(step(Feed{spinning_source, i}));
      if (caller_work > 0) spin(caller_work);
    }
    results.back().wait();
    const double step_time = std::chrono::duration<double, std::milli>(Clock::now() - start).count() / steps;
    for (int i = 0; i < steps; ++i)
      require(results[static_cast<std::size_t>(i)].item() == i, "step ", i, " gave another step's result");
    return step_time;
  };
  run(0, 0);

  struct Row {
    const char* label;
    double caller_work, source;
    std::vector<double> times = {};
  };
  std::vector<double> step_alone;
  std::vector<Row> rows = {{"5 ms of work by the caller", caller_ms, 0}, {"a source that takes 4 ms", 0, source_ms}};
  for (int pair = 0; pair < pairs; ++pair) {
    step_alone.push_back(run(0, 0));
    for (Row& row : rows) row.times.push_back(run(row.caller_work, row.source));
  }
  std::printf("%-32s %8s %8s %8s  ms a step, %d runs of %d steps\n", "with a step of 5 ms", "median", "min", "max",
              pairs, steps);
  auto print = [](const char* label, const std::vector<double>& times) {
    std::printf("%-32s %8.3f %8.3f %8.3f\n", label, median(times), *std::min_element(times.begin(), times.end()),
                *std::max_element(times.begin(), times.end()));
  };
  print("nothing", step_alone);
  double max_ratio = 0;
  for (const Row& row : rows) {
    print(row.label, row.times);
    max_ratio = std::max(max_ratio, median(row.times) / target_ms);
  }
  bench::write_json(json, cat("{\"alone\": ", median(step_alone), ", \"own_work\": ", median(rows[0].times),
                              ", \"slow_source\": ", median(rows[1].times), "}"));
  std::printf("in_flight: worst ratio %.3f (target 1.0)\n", max_ratio);
  return max_ratio <= 1 ? 0 : 1;
}
