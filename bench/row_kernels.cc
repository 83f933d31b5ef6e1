// Answers bench/row_kernels.py: the seconds of kernels along an axis, of f64 and of half numbers, and of copies.
//
//   bench_row_kernels THREADS
//
// For each line "NAME DTYPE" of the input, prints the seconds of one call and of a copy of as many bytes as the call
// reads and writes, or "?" for an unknown name.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "bench/namespace.h"
#include "bench/timing.h"
#include "karez/base/text.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace karez::bench {
namespace {

using namespace karez::kernels;

constexpr std::int64_t rows = 4096, columns = 2048;

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs = std::move(attrs);
  return call;
}

// Returns the call with this name; names are those of bench/row_kernels.py.
std::optional<CallSpec> call_with_name(const std::string& name, DType dtype) {
  const View x(dtype, {rows, columns}), index(DType::i64, x.shape);
  const auto integer = [](std::int64_t value) { return Attr(value); };
  const auto pointwise = [&](std::size_t operands, const char* expr) {
    return call_of("pointwise", std::vector<View>(operands, x), {x}, {{"expr", expr}});
  };
  const auto sort = [&](const Shape& shape, std::int64_t first) {
    Shape result = shape;
    result.back() = first;
    return call_of(
        "sort", {View(dtype, shape)}, {View(dtype, result), View(DType::i64, result)},
        {{"axis", integer(static_cast<std::int64_t>(shape.size()) - 1)}, {"descending", first < shape.back()}});
  };
  const std::map<std::string, CallSpec> calls{
      {"add", pointwise(2, "x0 + x1")},
      {"relu", pointwise(1, "max(x0, 0)")},
      {"exp", pointwise(1, "exp(x0)")},
      {"tanh", pointwise(1, "tanh(x0)")},
      {"to_f32", call_of("cast", {x}, {View(DType::f32, x.shape)}, {})},
      {"from_f32", call_of("cast", {View(DType::f32, x.shape)}, {x}, {})},
      {"sum", call_of("reduce_sum", {x}, {View(dtype, {})}, {{"axes", Ints{0, 1}}})},
      {"sum_columns", call_of("reduce_sum", {x}, {View(dtype, {columns})}, {{"axes", Ints{0}}})},
      {"max_rows", call_of("reduce_max", {x}, {View(dtype, {rows})}, {{"axes", Ints{1}}})},
      {"arg_max_rows", call_of("arg_max", {x}, {View(DType::i64, {rows})}, {{"axis", integer(1)}})},
      {"arg_max_columns", call_of("arg_max", {x}, {View(DType::i64, {columns})}, {{"axis", integer(0)}})},
      {"cumsum_rows", call_of("cumsum", {x}, {x}, {{"axis", integer(1)}})},
      {"cumsum_columns", call_of("cumsum", {x}, {x}, {{"axis", integer(0)}})},
      {"take_along_rows", call_of("take_along", {x, index}, {x}, {{"axis", integer(1)}})},
      {"take_along_columns", call_of("take_along", {x, index}, {x}, {{"axis", integer(0)}})},
      {"add_along_rows", call_of("add_along", {index, x}, {x}, {{"axis", integer(1)}, {"size", integer(columns)}})},
      {"add_along_columns", call_of("add_along", {index, x}, {x}, {{"axis", integer(0)}, {"size", integer(rows)}})},
      {"sort_million", sort({1 << 20}, 1 << 20)},
      {"sort_rows", sort({1000, 1000}, 1000)},
      {"sort_short_rows", sort({10000, 100}, 100)},
      {"top_10_rows", sort({1000, 1000}, 10)},
  };
  const auto found = calls.find(name);
  return found == calls.end() ? std::nullopt : std::optional(found->second);
}

// Random numbers; indices are below the number of columns.
void fill(KernelBench& bench) {
  fill_random(bench, 3);
  for (Buffer& buffer : bench.in)
    if (buffer.view.dtype == DType::i64) {
      std::mt19937 random(5);
      for_each_index(buffer.view.shape, [&](const auto& i) { buffer.at<std::int64_t>(i) = random() % columns; });
    }
}

// A call with operands that start at cache lines, and the memory of a copy of as many bytes.
class Timer {
 public:
  Timer(const KernelTable& table, const CallSpec& call) : bench_(table.row(table.find(call).value().kernel), call) {
    fill(bench_);
    std::int64_t bytes = 0;
    const auto move = [&](std::vector<Buffer>& buffers, std::vector<std::byte*>& addresses) {
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        memory_.push_back(allocate(buffers[i].view.bytes()));
        std::copy(buffers[i].bytes.begin(), buffers[i].bytes.end() - 64, memory_.back().get());
        addresses[i] = memory_.back().get();
        bytes += buffers[i].view.bytes();
      }
    };
    move(bench_.in, bench_.ins);
    move(bench_.out, bench_.outs);
    half_ = std::max<std::int64_t>(bytes / 2, 1);  // half of the bytes are read, half are written
    from_ = allocate(half_), to_ = allocate(half_);
    std::fill_n(from_.get(), half_, std::byte{1});
    for (int i = 0; i < 2; ++i) run(), copy();
  }
  void run() { bench_.run(); }
  void copy() { copy_bytes(bench_.call.team, to_.get(), from_.get(), half_); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(std::int64_t bytes) {
    return Memory(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(round_up(bytes + 64, 64)))));
  }

  KernelBench bench_;
  std::vector<Memory> memory_;
  Memory from_, to_;
  std::int64_t half_ = 0;
};

int serve(int threads) {
  const KernelTable table(cpu_kernels());
  std::map<std::string, std::unique_ptr<Timer>> timers;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name, dtype;
    words >> name >> dtype;
    std::unique_ptr<Timer>& timer = timers[line];
    if (!timer) {
      auto call = call_with_name(name, dtype_from(dtype));
      if (!call) {
        std::puts("?");
        std::fflush(stdout);
        continue;
      }
      call->team = threads;
      timers.clear();  // only the memory of one call is kept
      timers[line] = std::make_unique<Timer>(table, *call);
    }
    const double copy = seconds_per_run([&] { timers[line]->copy(); }, 1);
    std::printf("%.9f %.9f\n", seconds_per_run([&] { timers[line]->run(); }, 1), copy);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) { return karez::bench::serve(argc > 1 ? std::atoi(argv[1]) : 1); }
