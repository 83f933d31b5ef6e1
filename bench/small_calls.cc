// How much faster does one call of a group run than its calls one after the other? Small pointwise calls and products,
// prepared as a plan prepares them and run as an actor runs them.
//
//   bench_small_calls [THREADS]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "bench/namespace.h"
#include "bench/timing.h"
#include "karez/base/text.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/prepare_call.h"

namespace karez::bench {
namespace {

using namespace karez::kernels;

constexpr int rounds = 31;
constexpr double slice_seconds = 5e-4;  // per measurement

// The same calls one by one and as a group, on the same memory. Each call has its own operands and result, which start
// at cache lines; operands without strides are scalars that all calls share, such as a learning rate.
class Calls {
 public:
  Calls(const KernelTable& table, const CallSpec& single, int calls, bool as_group, int team,
        std::vector<float>& memory) {
    CallSpec spec = single;
    if (as_group) {
      spec.in.clear(), spec.out.clear(), spec.team = team;
      spec.attrs.set("calls", std::int64_t{calls});
      for (int i = 0; i < calls; ++i) {
        spec.in.insert(spec.in.end(), single.in.begin(), single.in.end());
        spec.out.insert(spec.out.end(), single.out.begin(), single.out.end());
      }
    }
    const KernelChoice choice = table.find(spec).value();
    plan::Call call;
    call.kernel = choice.kernel, call.attrs = spec.attrs, call.team = spec.team;
    for (const View& view : spec.in) call.in.emplace_back().view = view;
    for (const View& view : spec.out) call.out.emplace_back().view = view;
    if (choice.workspace > 0) call.workspace.emplace().view = View(DType::b8, {choice.workspace});
    auto* next = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
    std::byte* const scalar = next;
    next += 64;
    const auto place = [&](const View& view) {
      if (std::count(view.strides.begin(), view.strides.end(), 0) > 0) return scalar;
      return std::exchange(next, next + round_up(view.bytes(), 64));
    };
    for (int i = 0; i < calls; ++i) {
      if (i == 0 || !as_group) calls_.emplace_back().run = prepare_call(table, call, "cpu");
      for (const View& view : single.in) calls_.back().in.push_back(place(view));
      for (const View& view : single.out) calls_.back().out.push_back(place(view));
    }
    for (Prepared& one : calls_) one.workspace = next;
    require(next + choice.workspace <= reinterpret_cast<std::byte*>(memory.data() + memory.size()), "the memory of ",
            calls, " calls is too small");
  }
  void run() {
    for (Prepared& call : calls_) {
      at_call_.store(&call, std::memory_order_relaxed);  // as an actor does, for other threads
      call.run({call.in, call.out, call.workspace});
    }
  }

 private:
  struct Prepared {
    PreparedKernel run;
    std::vector<std::byte*> in, out;
    std::byte* workspace = nullptr;
  };
  std::vector<Prepared> calls_;
  std::atomic<const Prepared*> at_call_{nullptr};
};

CallSpec call_of(std::string op, std::vector<View> in, View out, Attrs attrs, int team = 1) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = {std::move(out)};
  call.attrs = std::move(attrs);
  call.team = team;
  return call;
}

void measure(const KernelTable& table, const std::string& name, const CallSpec& single, int calls, int team) {
  std::vector<float> memory(1 << 24, 0.5f);
  Calls one_by_one(table, single, calls, false, team, memory), group(table, single, calls, true, team, memory);
  std::vector<double> ratios;
  double fastest[2] = {1e9, 1e9};
  const double once = seconds_per_run([&] { one_by_one.run(); }, 10);
  const int times = std::max(1, static_cast<int>(slice_seconds / once));
  for (int round = 0; round < rounds; ++round) {
    const double single_seconds = seconds_per_run([&] { one_by_one.run(); }, times);
    const double group_seconds = seconds_per_run([&] { group.run(); }, times);
    fastest[0] = std::min(fastest[0], single_seconds), fastest[1] = std::min(fastest[1], group_seconds);
    ratios.push_back(single_seconds / group_seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("| %s | %d | %.2f | %.2f | %.2f (%.2f to %.2f) |\n", name.c_str(), calls, fastest[0] * 1e6,
              fastest[1] * 1e6, ratios[rounds / 2], ratios[rounds / 10], ratios[rounds - 1 - rounds / 10]);
}

int run(int threads) {
  const KernelTable table(cpu_kernels());
  std::printf("%d threads\n| call | calls | one by one, us | group, us | faster, times |\n|---|---|---|---|---|\n",
              threads);
  const auto view = [](DType dtype, std::int64_t n) { return View(dtype, {n}); };
  for (const std::int64_t n : {1, 5, 16, 33, 64, 256, 1024, 4096}) {
    const View f32 = view(DType::f32, n), f64 = view(DType::f64, n), bf16 = view(DType::bf16, n),
               i64 = view(DType::i64, n);
    const auto pointwise = [&](const char* name, std::vector<View> in, const View& out, const char* expr) {
      measure(table, cat(name, " of ", n), call_of("pointwise", std::move(in), out, {{"expr", expr}}), 64, 1);
    };
    pointwise("add, f32,", {f32, f32}, f32, "x0 + x1");
    pointwise("update, f32,", {f32, View(DType::f32, {n}, {0}), f32}, f32, "x0 - x1 * x2");
    pointwise("add, f64,", {f64, f64}, f64, "x0 + x1");
    pointwise("add, bf16,", {bf16, bf16}, bf16, "x0 + x1");
    pointwise("add, i64,", {i64, i64}, i64, "x0 + x1");
    if (threads > 1)
      measure(table, cat("add, f32, of ", n, ", team"), call_of("pointwise", {f32, f32}, f32, {{"expr", "x0 + x1"}}),
              64, threads);
  }
  for (const int calls : {2, 3, 4})
    for (const bool transpose : {true, false})
      for (const std::int64_t k : {32, 64, 128, 512})
        for (const std::int64_t rows : {8, 32, 64, 256, 1024}) {
          CallSpec single = call_of("matmul", {View(DType::f32, {rows, k}), View(DType::f32, {k, k})},
                                    View(DType::f32, {rows, k}), {{"transpose_b", transpose}});
          // As the compiler does without measured costs: a team from 15 us on at 1e11 operations per second.
          single.team = static_cast<double>(rows * k * k) * 2 / 1e11 >= 1.5e-5 ? threads : 1;
          measure(table, cat(rows, " x ", k, " x ", k, transpose ? ", transposed" : ""), single, calls, threads);
        }
  return 0;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) { return karez::bench::run(argc > 1 ? std::atoi(argv[1]) : 1); }
