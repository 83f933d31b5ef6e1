// Sets up compilations from the options of a world and a function, and runs them.
#include "karez/api/state/program_compilation.h"

#include <mutex>
#include <utility>

#include "karez/base/log.h"
#include "karez/kernels/cpu/bf16_widening.h"

namespace karez {
namespace {

bool has_own_device(const WorldState& world, const Graph& graph) {
  return !own_devices(graph, world.ranks.rank()).empty();
}

}  // namespace

std::optional<DType> amp_of(const FunctionOptions& options) {
  if (options.amp.empty()) return {};
  require(ErrorKind::name, options.amp == "bf16" || options.amp == "f16", "function '", options.name, "': amp is '",
          options.amp, "'; it must be bf16 or f16, or empty for f32");
  return tensor::dtype_from(options.amp);
}

void note_widened_amp(const WorldState& world, const FunctionOptions& options) {
  if (options.amp != "bf16" || world.ranks.rank() != 0) return;  // all ranks have the same instruction set
  CallSpec product;
  product.op = "matmul";
  product.in = {View(DType::bf16, {64, 64}), View(DType::bf16, {64, 64})};
  product.out = {View(DType::f32, {64, 64})};
  const auto kernel = world.tables.kernels.find(product);
  if (!kernel || !kernels::is_widened(kernel->kernel)) return;
  static std::once_flag message;
  std::call_once(message, [] {
    base::note(
        base::LogLevel::warning,
        "amp=\"bf16\": oneDNN has no bf16 products for this processor's instruction set, so they are computed in "
        "f32: operands are widened before each product, and results are rounded to bf16 after it. Activations need "
        "only the memory of bf16, but a step is no faster than in f32");
  });
}

Compilation make_compilation(WorldState& world, Graph graph, const FunctionOptions& options, std::int64_t batch,
                             std::vector<std::string> remat) {
  Compilation c;
  c.graph = std::move(graph);
  c.ops = &world.tables.ops;
  c.catalog = &world.tables.kernels;
  c.evaluate = world.tables.evaluate;
  c.options = world.compile_options(c.graph);
  if (!has_own_device(world, c.graph)) c.options.rank = c.graph.meshes[0].devices[0].rank;
  c.options.microbatches = options.microbatches;
  c.options.batch = batch;
  c.options.amp = amp_of(options);
  c.options.remat = std::move(remat);
  c.options.reassociate = options.reassociate;
  c.options.off = options.off;
  c.options.check_nan = c.options.check_nan || options.check_nan;
  c.options.keep_text = options.keep_text;
  return c;
}

Compilation compile_program(WorldState& world, Compilation c) {
  const bool has_device = has_own_device(world, c.graph);
  const std::string costs = world.act_costs(c.graph, c.options.team).print();
  world.plans.compile(c);
  c.plan.costs = costs;
  c.plan.data_bytes = world.data_bytes;
  if (has_device) return c;
  Plan empty_plan;
  empty_plan.name = c.plan.name;
  empty_plan.world = c.plan.world;
  empty_plan.rank = world.ranks.rank();
  empty_plan.program_hash = c.plan.program_hash;
  empty_plan.costs = costs;
  empty_plan.data_bytes = world.data_bytes;
  c.plan = std::move(empty_plan);
  return c;
}

}  // namespace karez
