// How fast is every kernel of a training step? Matrix products and convolutions are compared with a matmul of 1024 x
// 1024 x 1024, other kernels with a copy of as many bytes, in the same run with the same team.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>

#include "bench/namespace.h"
#include "karez/base/text.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace {

using namespace karez::bench;

constexpr int pairs = 9;
constexpr double slice_seconds = 2e-3;  // per measurement
constexpr std::int64_t working_set =
    96ll << 20;                     // bytes that a memory-bound kernel and its copy process, larger than every cache
constexpr double min_share = 0.02;  // kernels below this share of a step have no target

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(Shape shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); }

struct Item {
  std::string label;
  CallSpec call;
  double flops = 0;      // 0: the kernel is memory-bound
  double target = 0.25;  // relative to the rate of the copy or the matmul
};
struct Step {
  std::string name;
  std::vector<Item> items;
};

struct Result {
  // rates relative to the reference: median, minimum and maximum of the pairs
  double ratio = 0, min_ratio = 0, max_ratio = 0;
  double fastest = 0, median = 0;  // seconds per call
};

CallSpec make_call(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs = std::move(attrs);
  return call;
}

double operand_bytes(const CallSpec& call) {
  std::int64_t bytes = 0;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views) bytes += view.bytes();
  return static_cast<double>(bytes);
}

void add_matmul(Step& step, const std::string& label, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
                bool bias, bool relu) {
  std::vector<View> in{f32(ta ? Shape{k, m} : Shape{m, k}), f32(tb ? Shape{n, k} : Shape{k, n})};
  if (bias) in.push_back(f32({n}));
  step.items.push_back({label,
                        make_call("matmul", in, {f32({m, n})},
                                  {{"transpose_a", ta}, {"transpose_b", tb}, {"bias", bias}, {"relu", relu}}),
                        2.0 * static_cast<double>(m * n * k), 0.30});
}
void add_pointwise(Step& step, const std::string& label, const std::string& expr, std::vector<View> in,
                   const View& out) {
  step.items.push_back({label, make_call("pointwise", std::move(in), {out}, {{"expr", expr}})});
}

// Adds a dense layer, forward and backward; `relu` is fused into the product, and its gradient is a separate kernel.
void add_dense(Step& step, const std::string& name, std::int64_t batch, std::int64_t inputs, std::int64_t outputs,
               bool relu, bool first) {
  add_matmul(step, name + " forward", batch, outputs, inputs, false, false, true, relu);
  if (relu)
    add_pointwise(step, name + " relu gradient", "select(x0 > 0, x1, 0)",
                  {f32({batch, outputs}), f32({batch, outputs})}, f32({batch, outputs}));
  add_matmul(step, name + " weight gradient", inputs, outputs, batch, true, false, false, false);
  step.items.push_back({name + " bias gradient",
                        make_call("reduce_sum", {f32({batch, outputs})}, {f32({outputs})}, {{"axes", Ints{0}}})});
  if (!first) add_matmul(step, name + " input gradient", batch, inputs, outputs, false, true, false, false);
}

// Adds the calls of cross-entropy of logits [batch, classes] and of its gradient.
void add_loss(Step& step, std::int64_t batch, std::int64_t classes) {
  const View logits = f32({batch, classes}), rows = f32({batch}), column(DType::f32, {batch, classes}, {1, 0});
  step.items.push_back({"loss: row maximum", make_call("reduce_max", {logits}, {rows}, {{"axes", Ints{1}}})});
  add_pointwise(step, "loss: minus maximum", "x0 - x1", {logits, column}, logits);
  add_pointwise(step, "loss: exp", "exp(x0)", {logits}, logits);
  step.items.push_back({"loss: row sum", make_call("reduce_sum", {logits}, {rows}, {{"axes", Ints{1}}})});
  add_pointwise(step, "loss: log", "log(x0)", {rows}, rows);
  step.items.push_back({"loss: labels", make_call("one_hot", {View(DType::i32, {batch})}, {logits},
                                                  {{"depth", Attr(classes)}, {"dtype", "f32"}})});
  add_pointwise(step, "loss: minus log sum", "x0 - x1", {logits, column}, logits);
  add_pointwise(step, "loss: times labels", "x0 * x1", {logits, logits}, logits);
  step.items.push_back({"loss: sum", make_call("reduce_sum", {logits}, {f32({})}, {{"axes", Ints{0, 1}}})});
  add_pointwise(step, "loss: gradient", "(x0 / x1 - x2) * 0.015625", {logits, column, logits}, logits);
}

void add_adam(Step& step, const std::vector<Shape>& parameters) {
  std::vector<View> in, out;
  for (const Shape& shape : parameters) {
    in.insert(in.end(), 4, image(shape));
    out.insert(out.end(), 3, image(shape));
  }
  in.push_back(f32({}));
  in.push_back(View(DType::i64, {}));
  step.items.push_back({"adam", make_call("adam", in, out, {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}})});
}

Step mlp() {
  Step step{"mlp", {}};
  add_dense(step, "784-256", 64, 784, 256, true, true);
  add_dense(step, "256-128", 64, 256, 128, true, false);
  add_dense(step, "128-100", 64, 128, 100, true, false);
  add_dense(step, "100-10", 64, 100, 10, false, false);
  add_loss(step, 64, 10);
  add_adam(step, {{784, 256}, {256}, {256, 128}, {128}, {128, 100}, {100}, {100, 10}, {10}});
  return step;
}

void add_conv(Step& step, const std::string& name, std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t o,
              bool first) {
  const std::int64_t p = size - 2, half = p / 2;
  const View x = image({n, c, size, size}), w = image({o, c, 3, 3}), y = image({n, o, p, p}),
             z = image({n, o, half, half});
  const double flops = 2.0 * static_cast<double>(n * o * p * p * c * 9);
  const double target = first ? 0.20 : 0.30;
  const Attrs pool{{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  step.items.push_back(
      {name + " forward", make_call("conv2d", {x, w, f32({o})}, {y}, {{"bias", true}, {"relu", true}}), flops, target});
  step.items.push_back({name + " max pool", make_call("max_pool", {y}, {z, image(z.shape, DType::i32)}, pool)});
  Attrs pool_gradient = pool;
  pool_gradient.set("shape", y.shape);
  step.items.push_back(
      {name + " max pool gradient", make_call("max_pool_grad", {z, image(z.shape, DType::i32)}, {y}, pool_gradient)});
  add_pointwise(step, name + " relu gradient", "select(x0 > 0, x1, 0)", {y, y}, y);
  step.items.push_back({name + " weight gradient",
                        make_call("conv2d_grad_weight", {x, y}, {w}, {{"kernel", Ints{3, 3}}}), flops, target});
  step.items.push_back({name + " bias gradient", make_call("reduce_sum", {y}, {f32({o})}, {{"axes", Ints{0, 2, 3}}})});
  if (!first)
    step.items.push_back(
        {name + " input gradient", make_call("conv2d_grad_input", {y, w}, {x}, {{"shape", x.shape}}), flops, target});
}

Step cnn() {
  Step step{"cnn", {}};
  add_conv(step, "conv 1-16", 64, 1, 28, 16, true);
  add_conv(step, "conv 16-32", 64, 16, 13, 32, false);
  step.items.push_back({"flatten", make_call("copy", {image({64, 32, 5, 5})}, {f32({64, 32, 5, 5})})});
  step.items.push_back({"flatten gradient", make_call("copy", {f32({64, 32, 5, 5})}, {image({64, 32, 5, 5})})});
  add_dense(step, "800-128", 64, 800, 128, true, false);
  add_dense(step, "128-10", 64, 128, 10, false, false);
  add_loss(step, 64, 10);
  add_adam(step, {{16, 1, 3, 3}, {16}, {32, 16, 3, 3}, {32}, {800, 128}, {128}, {128, 10}, {10}});
  return step;
}

// Returns the current time in seconds: for a team of one the CPU time of this thread, which other processes do not
// affect, and for a larger team the wall-clock time.
double current_seconds(int team) {
  if (team > 1) return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Returns the mean seconds per call of `body` over `calls` calls.
template <class Body> double seconds_per_call(int team, int calls, Body&& body) {
  const double start = current_seconds(team);
  for (int i = 0; i < calls; ++i) body();
  return (current_seconds(team) - start) / calls;
}
template <class Body> int calls_per_slice(int team, Body&& body) {
  body();
  const double seconds_once = std::max(seconds_per_call(team, 3, body), 1e-8);
  return std::max(1, static_cast<int>(slice_seconds / seconds_once));
}

template <class A, class B> Result alternate(int team, double reference_work, double work, A&& reference, B&& body) {
  const int reference_calls = calls_per_slice(team, reference), calls = calls_per_slice(team, body);
  std::vector<double> ratios, times;
  for (int i = 0; i < pairs; ++i) {
    const double a = seconds_per_call(team, reference_calls, reference), b = seconds_per_call(team, calls, body);
    ratios.push_back((work / b) / (reference_work / a));
    times.push_back(b);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(times.begin(), times.end());
  return {ratios[pairs / 2], ratios.front(), ratios.back(), times.front(), times[pairs / 2]};
}

void fill(KernelBench& bench) {
  fill_random(bench, 17);
  if (bench.call.op == "adam")  // second moments are not negative
    for (std::size_t t = 0; 4 * t + 2 < bench.in.size(); ++t)
      for_each_index(bench.in[4 * t + 2].view.shape, [&](const auto& i) {
        float& v = bench.in[4 * t + 2].at<float>(i);
        v = std::abs(v);
      });
  if (bench.call.attrs.has("expr") && bench.call.attrs.text("expr") == "log(x0)")
    for_each_index(bench.in[0].view.shape,
                   [&](const auto& i) { bench.in[0].at<float>(i) = 1 + std::abs(bench.in[0].at<float>(i)); });
}

// Compares the results with the results of the plain kernel.
void check(const KernelTable& table, KernelBench& fast) {
  KernelBench plain(table.row(cat("plain.", fast.call.op)), fast.call);
  for (KernelBench* bench : {&fast, &plain}) {
    fill(*bench);
    bench->run();
  }
  for (std::size_t i = 0; i < fast.out.size(); ++i) {
    const double d = difference(fast.out[i], plain.out[i]);
    require(d < 1e-3, "kernel_rates: ", print(fast.call), " differs from the plain kernel by ", d, " in output ", i);
  }
}

// Compares the kernel, which runs on different copies of its operands that fill the working set, with a copy of as many
// bytes.
Result compare_with_copy(KernelBench& bench, int team) {
  const auto bytes = static_cast<std::int64_t>(operand_bytes(bench.call));
  const std::int64_t sets = std::max<std::int64_t>(1, working_set / std::max<std::int64_t>(bytes, 64));
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::int64_t> steps;
  for (const auto* buffers : {&bench.in, &bench.out})
    for (const Buffer& buffer : *buffers) {
      const std::int64_t step = round_up(std::max<std::int64_t>(buffer.view.bytes(), 64), 64);
      std::vector<std::byte> copies(static_cast<std::size_t>(step * sets + 64));
      for (std::int64_t s = 0; s < sets; ++s)
        std::memcpy(copies.data() + s * step, buffer.bytes.data(), static_cast<std::size_t>(buffer.view.bytes()));
      memory.push_back(std::move(copies));
      steps.push_back(step);
    }
  std::vector<std::byte*> ins(bench.in.size()), outs(bench.out.size());
  std::int64_t set = 0;
  const auto kernel = [&] {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      std::byte* address = memory[i].data() + set * steps[i];
      (i < ins.size() ? ins[i] : outs[i - ins.size()]) = address;
    }
    set = (set + 1) % sets;
    bench.kernel({ins, outs,
                  bench.workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(bench.workspace.data()) % 64) % 64});
  };
  const std::int64_t half = std::max<std::int64_t>(bytes / 2, 1);  // half of the bytes are read, half are written
  std::vector<std::byte> from(static_cast<std::size_t>(half * sets), std::byte{1}),
      to(static_cast<std::size_t>(half * sets), std::byte{2});
  std::int64_t copy_set = 0;
  const auto copy = [&] {
    copy_bytes(team, to.data() + copy_set * half, from.data() + copy_set * half, half);
    copy_set = (copy_set + 1) % sets;
  };
  return alternate(team, static_cast<double>(bytes), static_cast<double>(bytes), copy, kernel);
}

struct Line {
  std::string step, label, kernel;
  int team;
  Item item;
  Result result;
};

}  // namespace

int main(int argc, char** argv) {
  std::optional<std::string> json;
  int max_team = 2;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--json" && i + 1 < argc) json = argv[++i];
    else if (std::string(argv[i]) == "--team" && i + 1 < argc) max_team = std::atoi(argv[++i]);
    else
      return std::fprintf(stderr, "kernel_rates: unknown option '%s'; expected one of: --json FILE, --team LARGEST\n",
                          argv[i]),
             2;
  }
  const KernelTable table(cpu_kernels());
  std::vector<Line> lines;
  double min_ratio = 1e9;
  for (int team = 1; team <= max_team; ++team) {
    CallSpec cube = make_call("matmul", {f32({1024, 1024}), f32({1024, 1024})}, {f32({1024, 1024})});
    cube.team = team;
    KernelBench matmul(table.row(table.find(cube)->kernel), cube);
    fill_random(matmul, 5);
    const double cube_flops = 2.0 * 1024 * 1024 * 1024;
    matmul.run();
    std::vector<double> cube_times;
    for (int i = 0; i < pairs; ++i) cube_times.push_back(seconds_per_call(team, 1, [&] { matmul.run(); }));
    std::sort(cube_times.begin(), cube_times.end());
    std::printf("team %d: matmul 1024 x 1024 x 1024 at %.1f GF/s (best %.1f)\n", team,
                cube_flops / cube_times[pairs / 2] / 1e9, cube_flops / cube_times[0] / 1e9);
    for (const Step& step : {mlp(), cnn()}) {
      const std::size_t first_line = lines.size();
      std::vector<std::unique_ptr<KernelBench>> benches;
      double sum = 0;
      for (const Item& item : step.items) {
        CallSpec call = item.call;
        call.team = team;
        const auto choice = table.find(call);
        require(choice.has_value(), "kernel_rates: no kernel for ", print(call), ": ", table.list(call.op));
        benches.push_back(std::make_unique<KernelBench>(table.row(choice->kernel), call));
        KernelBench& bench = *benches.back();
        check(table, bench);
        const Result result = item.flops > 0
                                  ? alternate(
                                        team, cube_flops, item.flops, [&] { matmul.run(); }, [&] { bench.run(); })
                                  : compare_with_copy(bench, team);
        lines.push_back({step.name, item.label, choice->kernel, team, item, result});
        sum += result.median;
      }
      // Runs the kernels of a training step in sequence, without the engine, each on its own operands.
      const auto run_all = [&] {
        for (auto& bench : benches) bench->run();
      };
      std::vector<double> bound;
      for (int i = 0; i < pairs; ++i)
        bound.push_back(seconds_per_call(team, std::max(1, calls_per_slice(team, run_all)), run_all));
      std::sort(bound.begin(), bound.end());
      std::printf("\n%s, team %d: the kernels of a step in sequence take %.0f us (%.0f .. %.0f)\n", step.name.c_str(),
                  team, bound[pairs / 2] * 1e6, bound.front() * 1e6, bound.back() * 1e6);
      std::printf("  %-28s %-26s %9s %6s %14s  %-6s %s\n", "what", "kernel", "us", "share", "rate", "ratio",
                  "(min .. max)");
      for (std::size_t i = first_line; i < lines.size(); ++i) {
        const Line& line = lines[i];
        const Result& r = line.result;
        const double share = r.median / sum;
        const bool counts = share > min_share;
        if (counts) min_ratio = std::min(min_ratio, r.ratio / line.item.target);
        std::printf("  %-28s %-26s %9.1f %5.1f%% %9.1f %s  %.2f   (%.2f .. %.2f)%s\n", line.label.c_str(),
                    line.kernel.c_str(), r.median * 1e6, share * 100,
                    (line.item.flops > 0 ? line.item.flops : operand_bytes(line.item.call)) / r.median / 1e9,
                    line.item.flops > 0 ? "GF/s" : "GB/s", r.ratio, r.min_ratio, r.max_ratio,
                    !counts                      ? "  small"
                    : r.ratio < line.item.target ? "  MISSED"
                                                 : "");
      }
    }
    std::printf("\n");
  }
  if (json) {
    std::ofstream out(*json);
    out << "[\n";
    for (std::size_t i = 0; i < lines.size(); ++i)
      out << "  {\"step\": " << quote(lines[i].step) << ", \"what\": " << quote(lines[i].label)
          << ", \"kernel\": " << quote(lines[i].kernel) << ", \"team\": " << lines[i].team
          << ", \"seconds\": " << lines[i].result.median << ", \"ratio\": " << lines[i].result.ratio
          << ", \"target\": " << lines[i].item.target << "}" << (i + 1 < lines.size() ? "," : "") << "\n";
    out << "]\n";
  }
  // A ratio is a kernel's rate relative to its target, so that one number covers all targets.
  std::printf("kernel_rates: worst ratio %.2f (target 1.00)\n", min_ratio);
  return min_ratio < 1.0;
}
