// A small program that trains on all ranks and fails as its options request. Tests of failures run it as a job.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "karez/api/options.h"
#include "karez/karez.h"
#include "karez/kernels/kernel.h"
#include "tools/namespace.h"

namespace karez::tools {
namespace {

const std::vector<Option> option_specs = {
    {"steps", "1000000", "launches"},
    {"fault", "none",
     "stop-start, stop-end: the rank stops itself (SIGSTOP) before it makes its world, or before it ends; host, "
     "kernel, source: step number --at takes --seconds longer in the host program, the kernel or the source; "
     "slow-host, "
     "slow-kernel, slow-source: that step and all later ones take longer; throw-host, throw-kernel, throw-source: that "
     "step throws an exception there"},
    {"rank", "1", "the rank that has the fault"},
    {"at", "5", "the number of the step with the fault, from 0"},
    {"seconds", "0", "seconds by which the fault prolongs a step"},
    {"work", "0.001", "seconds that the kernel sleeps in each step"},
    {"between", "0", "seconds that each rank sleeps before each launch"},
    {"peer-timeout", "2", "WorldOptions::peer_timeout"},
    {"call-timeout", "2", "WorldOptions::call_timeout"},
    {"resets", "0", "number of failures after which the world is reset and trained again without the fault"},
    {"width", "16", "width of the layer, which determines the size of the gradients"},
};

// The fault that the options request. It takes effect only if `on_this_rank` is set.
struct Fault {
  std::string name;
  bool on_this_rank = false;
  std::int64_t at = 0;
  double seconds = 0;

  // The host program, the kernel and the source call this function at every step.
  void inject(const std::string& place, std::int64_t step) const {
    if (!on_this_rank) return;
    const bool is_single = step == at && name == place, is_slow = step >= at && name == cat("slow-", place);
    if (is_single || is_slow) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    if (step == at && name == cat("throw-", place))
      throw std::runtime_error(cat("the ", place, " broke at step ", step));
  }
};

struct RowSource : Source {
  RowSource(const Fault& fault, std::int64_t rows) : fault(fault), rows(rows) {}
  const Fault& fault;
  std::int64_t rows;
  TensorType type() const override { return {DType::f32, {rows, 8}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    fault.inject("source", position);
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>((position + i) % 7);
  }
};

OpDef work_op() {
  OpDef op;
  op.name = "work";
  op.doc = "Returns the operand after a delay.";
  op.inputs = 1;
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  op.index = "i j -> i j";
  op.grad = [](Builder&, const graph::NodeView&, std::span<const ValueId> dy) -> std::vector<ValueId> {
    return {dy[0]};
  };
  return op;
}

kernels::KernelRow work_kernel(const Fault& fault, double seconds) {
  kernels::KernelRow row;
  row.name = "test.work";
  row.op = "work";
  row.rank = 1;
  row.supports = [](const plan::CallSpec& c) { return c.in[0].contiguous() && c.out[0].contiguous(); };
  row.prepare = [&fault, seconds](const plan::CallSpec& c) -> kernels::PreparedKernel {
    auto step = std::make_shared<std::int64_t>(0);
    return [&fault, seconds, step, bytes = c.out[0].bytes()](const kernels::KernelArgs& args) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      fault.inject("kernel", (*step)++);
      std::memcpy(args.out[0], args.in[0], static_cast<std::size_t>(bytes));
    };
  };
  return row;
}

// Stops this process if the fault is stop-`place` and this is the rank that has it. Reads the rank from the environment
// variable that karez run sets, because before the start there is no world to ask.
void stop_before(const std::string& place, const Options& options) {
  const char* rank = std::getenv("KAREZ_RANK");
  if (options.text("fault") == cat("stop-", place) && rank != nullptr && options.text("rank") == rank)
    std::raise(SIGSTOP);
}

void train(const Options& options) {
  stop_before("start", options);
  Fault fault{options.text("fault"), false, options.integer("at"), options.real("seconds")};
  World world({.team = 1,
               .peer_timeout = options.real("peer-timeout"),
               .call_timeout = options.real("call-timeout"),
               .ops = {work_op()},
               .kernels = {work_kernel(fault, options.real("work"))}});
  fault.on_this_rank = world.rank() == options.integer("rank");
  const std::int64_t width = options.integer("width", 1);
  Parameter w("w", {DType::f32, {8, width}}, constant_init(0.01));
  optim::SGD sgd({w}, {.lr = 0.01});
  auto rows = std::make_shared<RowSource>(fault, 4 * world.ranks());
  auto step = compile(world.mesh(cat("data=", world.ranks())), [&](Tensor x) {
    Tensor loss = mean(matmul(apply("work", {with_layout(x, {"data"})}), w));
    sgd.step(grad(loss, {w}));
    return loss;
  });
  auto run = [&] {
    for (std::int64_t i = 0; i < options.integer("steps", 0); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(options.real("between")));
      fault.inject("host", i);
      const double loss = step(Feed{rows, i}).item();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      std::printf("step %lld loss %.6f took %.6f\n", static_cast<long long>(i), loss, seconds);
      std::fflush(stdout);
    }
  };
  for (std::int64_t resets = options.integer("resets", 0); resets > 0; --resets) {
    try {
      run();
      return stop_before("end", options);
    } catch (const std::exception&) {
      fault.on_this_rank = false;
      world.reset();
    }
  }
  run();
  stop_before("end", options);
}

}  // namespace
}  // namespace karez::tools

int main(int count, char** words) {
  try {
    karez::Options options(karez::tools::option_specs);
    if (!options.read(count, words)) return std::printf("%s", options.help().c_str()), 0;
    karez::tools::train(options);
  } catch (const karez::Error& error) {
    std::fprintf(stderr, "faulty_rank: %s\n", error.what());
    return karez::exit_code(error.kind);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "faulty_rank: %s\n", error.what());
    return 3;
  }
  return 0;
}
