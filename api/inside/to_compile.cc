// What a compilation takes from a world and a function's options.
#include "api/inside/to_compile.h"

#include <utility>

namespace karez {
namespace {

bool takes_part(const WorldState& world, const Graph& graph) { return !own_devices(graph, world.ranks.rank()).empty(); }

}  // namespace

std::optional<DType> amp_of(const FunctionOptions& options) {
  if (options.amp.empty()) return {};
  require(ErrorKind::name, options.amp == "bf16" || options.amp == "f16", "function '", options.name, "': amp is '", options.amp,
          "'; there are bf16 and f16, and nothing for f32 alone");
  return tensor::dtype_from(options.amp);
}

Compilation to_compile(WorldState& world, Graph graph, const FunctionOptions& options, std::int64_t batch, std::vector<std::string> remat) {
  Compilation c;
  c.graph = std::move(graph);
  c.ops = &world.ops;
  c.catalog = &world.kernels;
  c.evaluate = world.evaluate;
  c.options = world.compile_options(c.graph);
  if (!takes_part(world, c.graph)) c.options.rank = c.graph.meshes[0].devices[0].rank;
  c.options.microbatches = options.microbatches;
  c.options.batch = batch;
  c.options.amp = amp_of(options);
  c.options.remat = std::move(remat);
  c.options.off = options.off;
  c.options.keep_text = options.keep_text;
  return c;
}

Compilation compiled(WorldState& world, Compilation c) {
  const bool here = takes_part(world, c.graph);
  world.plans.compile(c);
  if (here) return c;
  Plan none;
  none.name = c.plan.name;
  none.world = c.plan.world;
  none.rank = world.ranks.rank();
  none.program_hash = c.plan.program_hash;
  c.plan = std::move(none);
  return c;
}

}  // namespace karez
