// Measures sample calls and chains of calls and of collectives in the engine.
#include "tools/karez/measure_kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>

#include "karez/base/text.h"
#include "karez/device/cpu_contention.h"
#include "karez/device/processor.h"
#include "karez/karez.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"

namespace karez::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double sample_seconds = 0.08, chain_seconds = 0.4;
// Each sample is measured in several passes over all samples, seconds apart: the cores of a virtual machine are slower
// or further from each other for a second or longer.
constexpr int passes = 4;
constexpr double min_team_seconds = 1.5e-5;  // as in the localise pass: shorter calls run on one thread

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(const Shape& shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); }

class SampleBuilder {
 public:
  explicit SampleBuilder(int team) : team_(team), ops_(all_ops()) {}

  void add(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
    CallSpec call;
    call.op = std::move(op), call.attrs = std::move(attrs), call.in = std::move(in), call.out = std::move(out),
    call.team = team_;
    auto types = [](const std::vector<View>& views) {
      std::vector<TensorType> out;
      for (const View& view : views) out.push_back(view.type());
      return out;
    };
    const Work work = cost_of(ops_.at(call.op), types(call.in), types(call.out), call.attrs);
    samples.push_back(
        {work.flops > 0 && work.work == WorkClass::memory ? functions_rate : rate_of(work), std::move(call), work});
  }
  void matmul(std::int64_t m, std::int64_t k, std::int64_t n) {
    add("matmul", {f32({m, k}), f32({n, k})}, {f32({m, n})}, {{"transpose_b", true}});
  }
  void conv(std::int64_t c, std::int64_t size, std::int64_t o) {
    const View x = image({16, c, size, size}), w = image({o, c, 3, 3}), y = image({16, o, size - 2, size - 2});
    add("conv2d", {x, w}, {y});
    add("conv2d_grad_weight", {x, y}, {w}, {{"kernel", Ints{3, 3}}});
  }
  void conv_input(std::int64_t c, std::int64_t size, std::int64_t o) {
    const View x = image({16, c, size, size}), w = image({o, c, 3, 3}), y = image({16, o, size - 2, size - 2});
    add("conv2d_grad_input", {y, w}, {x}, {{"shape", x.shape}});
  }
  // Adds calls whose time depends on memory traffic, each with operands of about `bytes` bytes in total.
  void memory_bound(std::int64_t bytes) {
    const std::int64_t n = bytes / 16;  // three operands have n elements each, two have 2 n, one has 4 n
    auto rows = [&](std::int64_t elements) { return std::max<std::int64_t>(elements / 64, 1); };
    const View three_operands = f32({n / 64 * 64}), two_rows = f32({rows(2 * n), 64}),
               rows_of_64 = f32({rows(4 * n), 64});
    add("pointwise", {three_operands, three_operands}, {three_operands}, {{"expr", "x0 + x1"}});
    add("pointwise", {two_rows}, {two_rows}, {{"expr", "max(x0, 0)"}});
    add("pointwise", {three_operands, three_operands}, {three_operands}, {{"expr", "select(x0 > 0, x1, 0)"}});
    add("reduce_sum", {rows_of_64}, {f32({rows_of_64.shape[0]})}, {{"axes", Ints{1}}});
    add("reduce_sum", {rows_of_64}, {f32({64})}, {{"axes", Ints{0}}});
    add("reduce_max", {rows_of_64}, {f32({rows_of_64.shape[0]})}, {{"axes", Ints{1}}});
    const std::int64_t images = std::max<std::int64_t>(bytes / (8 * 8 * 16 * 6), 1);  // x, y and places
    const View x = image({images, 16, 8, 8}), y = image({images, 16, 4, 4}), places = image(y.shape, DType::i32);
    Attrs pool{{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
    add("max_pool", {x}, {y, places}, pool);
    add("max_pool_grad", {y, places}, {x}, pool.set("shape", x.shape));
    const View table = f32({64, 64}), index(DType::i32, {two_rows.shape[0]});
    add("gather", {table, index}, {two_rows}, {{"axis", std::int64_t{0}}});
    add("copy", {two_rows}, {two_rows});
    add("copy", {View(DType::f32, two_rows.shape, {1, two_rows.shape[0]})}, {two_rows});
    const View part = f32({bytes / 28 / 16 * 16 + 16}), number = f32({});
    add("adam", {part, part, part, part, number, View(DType::i64, {})}, {part, part, part},
        {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}});
  }

  std::vector<Sample> samples;

 private:
  int team_;
  OpTable ops_;
};

// Returns the time of the fastest of several steps, after three steps to warm up.
double step_seconds(const Function& step, const HostArray& x) {
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) step(x).wait();
  for (const auto begin = Clock::now();
       times.size() < 5 || std::chrono::duration<double>(Clock::now() - begin).count() < chain_seconds / 4;) {
    const auto from = Clock::now();
    step(x).wait();
    times.push_back(std::chrono::duration<double>(Clock::now() - from).count());
  }
  return *std::min_element(times.begin(), times.end());
}

// Returns the seconds that one application of `link` takes: the difference between chains of 40 and of 8 applications,
// divided by 32.
double seconds_each(int devices, const Shape& shape, const std::function<Tensor(Tensor)>& link) {
  World world({.devices = devices, .team = 1, .costs = CostTable{}, .ranks = Ranks{}});
  const HostArray x = HostArray(TensorType{DType::f32, shape});
  auto chain = [&](int links) {
    const Function step = compile(world.mesh(devices > 1 ? cat("p=", devices) : ""), [&](Tensor h) {
      for (int i = 0; i < links; ++i) h = link(h);
      return mean(h);
    });
    return step_seconds(step, x);
  };
  return std::max(chain(40) - chain(8), 1e-9) / 32;
}

double work_amount(const Sample& sample) {
  return sample.rate < find_rate("pointwise.l1") || sample.rate == functions_rate ? sample.work.flops
                                                                                  : sample.work.bytes;
}

// Returns the seconds of a step that splits two rows between two devices and gathers both rows on each device.
double gather_seconds(std::int64_t columns) {
  return seconds_each(2, {2, columns}, [](Tensor h) { return with_layout(with_layout(relu(h), {"p"}), {}); });
}
// Returns the seconds of a step that splits two rows between two devices and sums them on each device.
double sum_seconds(std::int64_t columns) {
  return seconds_each(2, {2, columns}, [columns](Tensor h) {
    Tensor total = with_layout(sum(with_layout(relu(h), {"p"}), {0}), {});
    return broadcast_to(reshape(total, {1, columns}), {2, columns});
  });
}

}  // namespace

std::vector<Sample> kernel_samples(int team) {
  SampleBuilder out(team);
  out.matmul(2, 512, 512), out.matmul(512, 512, 2);
  out.matmul(64, 100, 10), out.matmul(8, 256, 256), out.matmul(256, 8, 256);
  out.matmul(32, 128, 100), out.matmul(16, 128, 100), out.matmul(64, 32, 32);
  out.matmul(64, 784, 256), out.matmul(16, 784, 256), out.matmul(256, 128, 128), out.matmul(512, 512, 512);
  out.conv(1, 28, 4), out.conv(16, 13, 4), out.conv(1, 28, 8), out.conv(16, 13, 8), out.conv(1, 28, 16),
      out.conv(16, 13, 32);
  out.conv_input(4, 13, 32), out.conv_input(4, 28, 16), out.conv_input(8, 13, 32), out.conv_input(16, 13, 32),
      out.conv_input(32, 28, 32);
  out.add("pointwise", {f32({1 << 17})}, {f32({1 << 17})},
          {{"expr", "exp(x0)"}});  // large enough for a team to be faster
  for (const std::int64_t bytes :
       {std::int64_t{16} << 10, std::int64_t{512} << 10, std::int64_t{8} << 20, std::int64_t{64} << 20})
    out.memory_bound(bytes);
  return std::move(out.samples);
}

namespace {

constexpr int rounds = 8;

// A call with memory for its operands.
class PreparedCall {
 public:
  explicit PreparedCall(const CallSpec& call) {
    static const KernelTable table(cpu_kernels());
    const auto choice = table.find(call);
    if (!choice.has_value()) fail(ErrorKind::device, "no kernel runs ", print(call));
    for (const View& view : call.in) add_operand(view, in_);
    for (const View& view : call.out) add_operand(view, out_);
    workspace_.resize(static_cast<std::size_t>(choice->workspace) + 64);
    aligned_ = workspace_.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace_.data()) % 64) % 64;
    kernel_ = table.row(choice->kernel).prepare(call);
  }

  void run() { kernel_({in_, out_, aligned_}); }
  // Writes all operands, so that they are in the cache of this thread's core. The values do not change.
  void write_operands() {
    const float one = one_;
    for (std::vector<float>& operand : memory_)
      for (float& number : operand) number *= one;
  }
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const std::vector<float>& operand : memory_) bytes += operand.size() * sizeof(float);
    return bytes;
  }

 private:
  void add_operand(const View& view, std::vector<std::byte*>& list) {
    memory_.emplace_back(static_cast<std::size_t>(view.bytes()) / sizeof(float) + 16,
                         view.dtype == DType::f32 ? 0.5f : 0.0f);
    list.push_back(reinterpret_cast<std::byte*>(memory_.back().data()));
  }

  std::vector<std::vector<float>> memory_;
  std::vector<std::byte*> in_, out_;
  std::vector<std::byte> workspace_;
  std::byte* aligned_ = nullptr;
  PreparedKernel kernel_;
  volatile float one_ = 1;  // the compiler must not know the value
};

template <class Body> double mean_seconds(int times, Body&& body) {
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i) body();
  return std::chrono::duration<double>(Clock::now() - begin).count() / times;
}

// Returns how often `body` runs in a round, so that all rounds together take `seconds` seconds.
template <class Body> int calls_per_round(double seconds, Body&& body) {
  mean_seconds(2, body);
  return std::clamp(static_cast<int>(seconds / rounds / std::max(mean_seconds(2, body), 1e-9)), 1, 1 << 20);
}

}  // namespace

double seconds_of(const CallSpec& call, double seconds) {
  PreparedCall prepared(call);
  const auto run = [&] { prepared.run(); };
  const int calls = calls_per_round(seconds, run);
  double fastest_round = mean_seconds(calls, run);
  for (int i = 1; i < rounds; ++i) fastest_round = std::min(fastest_round, mean_seconds(calls, run));
  return fastest_round;
}

void measure_team(const CallSpec& call, double seconds, TeamTimes& times) {
  constexpr std::size_t private_cache = 2 << 20;  // larger operands are in a cache that all cores share, or in memory
  CallSpec one_thread = call;
  one_thread.team = 1;
  PreparedCall alone(one_thread), together(call);
  const bool writes = alone.bytes() <= private_cache;
  const auto run = [&](PreparedCall& prepared) {
    if (writes) prepared.write_operands();
    prepared.run();
  };
  const int calls = calls_per_round(seconds / 2, [&] { run(alone), run(together); });
  for (int i = 0; i < rounds; ++i) {
    times.alone = std::min(times.alone, mean_seconds(calls, [&] { run(alone); }));
    times.together = std::min(times.together, mean_seconds(calls, [&] { run(together); }));
  }
}

double TeamTimes::on_team(int team) const {
  return team == 1 || together == 1e30 ? one_thread : std::max(one_thread + together - alone, one_thread / team);
}

KernelCosts measure_kernels(const std::string& isa, int team) {
  std::vector<Sample> samples = kernel_samples(team);
  SampleBuilder short_sample(team);
  short_sample.matmul(64, 144, 64);  // close to the smallest product whose rate is matmul.square
  samples.push_back(short_sample.samples[0]);
  std::vector<TeamTimes> times(samples.size());
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CallSpec one_thread = samples[i].call;
      one_thread.team = 1;
      times[i].one_thread = std::min(times[i].one_thread, seconds_of(one_thread, sample_seconds / passes));
      if (team > 1 && (times[i].one_thread >= min_team_seconds || i + 1 == samples.size()))
        measure_team(samples[i].call, 2 * sample_seconds / passes, times[i]);
    }
  KernelCosts out{{{isa, 1, {}}}, 0};
  if (team > 1) out.sets.push_back({isa, team, {}});
  for (RateSet& set : out.sets) {
    std::array<std::vector<double>, rate_count> logs;
    for (std::size_t i = 0; i + 1 < samples.size(); ++i)
      logs[samples[i].rate].push_back(std::log(work_amount(samples[i]) / times[i].on_team(set.team)));
    for (std::size_t rate = 0; rate < rate_count; ++rate) {
      double sum = 0;
      for (double log_rate : logs[rate]) sum += log_rate;
      set.rates[rate] = logs[rate].empty() ? 0 : std::exp(sum / static_cast<double>(logs[rate].size()));
    }
    // The operands of a repeated sample stay in the L1 or L2 cache, but a step updates memory that was last used one
    // step earlier.
    for (const char* cached : {"update.l1", "update.l2"}) {
      double& rate = set.rates[find_rate(cached)];
      rate = std::min(rate, out.sets[0].rates[find_rate("update.l3")]);
    }
  }
  if (team == 1) return out;
  const double explained = samples.back().work.flops / out.sets[1].rates[find_rate("matmul.square")];
  out.team_call = std::max(times.back().on_team(team) - explained, 1e-7);
  return out;
}

double measure_call() {
  return seconds_each(1, {16}, [](Tensor h) { return relu(h - 0.5) + 0.25; }) / 3;
}

// An all_gather of a row costs alpha, plus beta and one copy for each byte. An all_reduce costs alpha, plus beta and
// two copies for each byte, because it sums two rows.
void measure_local_link(CostTable& costs) {
  constexpr std::int64_t few_columns = 16, many_columns = 1 << 15;
  constexpr double bytes = 4 * static_cast<double>(many_columns - few_columns);
  auto relu_of = [&](double size) { return costs.seconds({.bytes = 2 * size}); };
  const double gather_time = gather_seconds(few_columns), sum_time = sum_seconds(few_columns);
  const double gather_per_byte = (gather_seconds(many_columns) - gather_time - relu_of(bytes) + costs.call) / bytes;
  const double sum_per_byte = (sum_seconds(many_columns) - sum_time - 2 * relu_of(bytes) + 2 * costs.call) / bytes;
  const double fastest = 1 / costs.rates[find_rate("pointwise.l1")];
  const double copying = std::max(sum_per_byte - gather_per_byte, fastest);
  costs.memory_bytes = 1 / copying;
  costs.axis_links = {{"local",
                       {std::max((gather_time - relu_of(64) + sum_time - 2 * relu_of(64)) / 2, 1e-9),
                        std::max(gather_per_byte - copying, fastest / 2)}}};
}

CostTable measure_costs(int team, std::string_view date) {
  const device::Processor own = device::processor();
  CostTable out;
  out.origin = cat("measured on ", own.name, ", ", own.isa, ", on ", date);
  device::SchedTimesReader sched_times;
  sched_times.since_last();
  const auto begin = Clock::now();
  KernelCosts kernels = measure_kernels(own.isa, team);
  out.sets = std::move(kernels.sets), out.team_call = kernels.team_call;
  out.call = measure_call();
  CostTable one_thread = out.with_threads(1, 1);  // links join devices of one thread each
  measure_local_link(one_thread);
  out.memory_bytes = one_thread.memory_bytes, out.axis_links = one_thread.axis_links;
  auto rate = [&](const char* name) { return out.sets.back().rates[find_rate(name)]; };
  const auto times = sched_times.since_last();
  if (times && times->waited > (Clock::now() - begin) / 20) out.origin += contention_note;
  out.matmul_flops = rate("matmul.square"), out.conv_flops = rate("conv.many");
  return out;
}

}  // namespace karez::tools
