// Sets up compilations from the options of a world and a function, and runs them.
#include "karez/api/state/program_compilation.h"

#include <algorithm>
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

std::vector<GradientOutput> gradient_outputs(const Trace& trace) {
  std::vector<GradientOutput> out;
  const std::vector<Parameter>& parameters = trace.parameters();
  for (const auto& [output, parameter] : trace.gradient_outputs) {
    const auto variable = std::find(parameters.begin(), parameters.end(), parameter);
    if (variable != parameters.end() && !trace.graph.outputs.at(output).layout)
      out.push_back({output, static_cast<std::size_t>(variable - parameters.begin())});
  }
  return out;
}

namespace {

// Chooses the layouts of variables that have gradients as outputs and no layout yet.
void fix_unknown_layouts(WorldState& world, const std::vector<GradientOutput>& outputs, Compilation& c) {
  Compilation first = c;
  if (c.options.memory == 0) {
    // A gradient that is an output in the layout of its variable costs as much as one that updates the variable.
    for (auto [output, variable] : outputs)
      if (!c.graph.variables[variable].updated.valid())
        first.graph.variables[variable].updated = c.graph.outputs[output].value;
    std::vector<Output> others;
    for (std::size_t i = 0; i < c.graph.outputs.size(); ++i)
      if (std::none_of(outputs.begin(), outputs.end(), [&](const auto& gradient) { return gradient.output == i; }))
        others.push_back(c.graph.outputs[i]);
    first.graph.outputs = std::move(others);
    world.plans.choose_layouts(first);
  } else {
    world.plans.compile(first);  // the layouts must leave enough memory for the complete program
  }
  for (auto [output, variable] : outputs) {
    Variable& target = c.graph.variables[variable];
    for (const Variable& chosen : first.graph.variables)
      if (chosen.name == target.name && chosen.stored) target.stored = chosen.stored;
  }
}

}  // namespace

void fix_gradient_layouts(WorldState& world, const std::vector<GradientOutput>& outputs, Compilation& c) {
  if (c.graph.meshes.size() == 1 && c.graph.meshes[0].size() == 1) return;
  bool is_unknown = false;
  for (auto [output, variable] : outputs) {
    const Variable& target = c.graph.variables[variable];
    ValueId& value = c.graph.outputs[output].value;
    if (c.graph.value(value).mesh != target.mesh) {
      value = Builder(c.graph, *c.ops).one("transfer", {value});
      c.graph.value(value).mesh = target.mesh;
    }
    is_unknown = is_unknown || !target.stored;
  }
  if (is_unknown) fix_unknown_layouts(world, outputs, c);
  for (auto [output, variable] : outputs) c.graph.outputs[output].layout = c.graph.variables[variable].stored;
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
