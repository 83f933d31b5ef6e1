// Implements gathers: makes a plan when a value is first read, and keeps the plans in a small cache.
#include "karez/api/ranks/gather.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/trace/summands.h"
#include "karez/base/hash.h"
#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/place.h"
#include "karez/runtime/launch/failure.h"

namespace karez {
namespace {

constexpr std::size_t max_gather_plans = 16;  // each plan holds memory for its value

Mesh first_devices(const WorldState& world) {
  Mesh mesh{{{"rank", world.ranks.ranks()}}, {}};
  for (int rank = 0; rank < world.ranks.ranks(); ++rank) mesh.devices.push_back({rank, 0});
  return mesh;
}

std::string format_mesh(const Mesh& mesh) {
  return cat(sbp::print(mesh), " on ", join(mesh.devices, " ", [](DeviceName device) { return sbp::print(device); }));
}

// Plans a program that makes one value on the mesh by calling `make`, and copies the complete value to one device of
// each rank.
template <class Make> Plan make_gather_plan(WorldState& world, const Mesh& mesh, Make make) {
  Trace trace(world.tables.ops, {.name = "read", .mesh = first_devices(world)});
  Builder& b = trace.builder;
  b.where = "a read of a value that is not complete on every rank";
  const int value_mesh = trace.mesh_index(mesh), gather_mesh = trace.mesh_index(first_devices(world));
  b.mesh = value_mesh;
  const ValueId value = make(trace);
  b.mesh = gather_mesh;
  trace.graph.outputs.push_back({"out0", b.transfer_to_mesh(value, gather_mesh), std::nullopt});
  Compilation c;
  c.graph = place(std::move(trace.graph), world.tables.ops);
  c.ops = &world.tables.ops;
  c.catalog = &world.tables.kernels;
  c.evaluate = world.tables.evaluate;
  c.options = world.compile_options(c.graph);
  compile(c);
  return std::move(c.plan);
}

// Finds or loads the plan, and returns its number in the session.
template <class Make> int load_gather_plan(WorldState& world, const std::string& what, const Mesh& mesh, Make make) {
  auto& gather_plans = world.gather_plans;
  std::erase_if(gather_plans, [&](const GatherPlan& g) { return g.generation != world.generation; });
  auto existing =
      std::find_if(gather_plans.begin(), gather_plans.end(), [&](const GatherPlan& g) { return g.what == what; });
  if (existing != gather_plans.end()) {
    std::rotate(existing, existing + 1, gather_plans.end());
    return gather_plans.back().plan;
  }
  const Plan plan = make_gather_plan(world, mesh, make);
  agree_on_links(world, plan, cat("the links of a read of ", what));
  gather_plans.push_back({what, world.session.load(plan), world.generation});
  if (gather_plans.size() > max_gather_plans) {
    world.session.unload(gather_plans.front().plan);
    gather_plans.erase(gather_plans.begin());
  }
  return gather_plans.back().plan;
}

// Agrees with the other ranks on the read. Call this before the plan is made and loaded, so that nothing has changed if
// some rank does not read this value.
std::uint64_t request_read(WorldState& world, const std::string& what, SourceLine where) {
  return agree_on_op(world, {.hash = hash_text(what),
                             .what = cat("a read of ", what),
                             .where = where,
                             .advice = "a value that is not complete on every rank must be read by all ranks: read it "
                                       "on each, and print it on one"});
}

template <class Make>
runtime::Result launch_gather(WorldState& world, std::uint64_t op, const std::string& what, const Mesh& mesh,
                              const Results& arrays, Make make) {
  try {
    return world.session.launch(load_gather_plan(world, what, mesh, make), {}, arrays, op).result("out0");
  } catch (...) {
    if (op != 0) world.session.fail_ranks(runtime::current_error());  // the other ranks wait for this rank
    throw;
  }
}

}  // namespace

bool whole_on_every_rank(const WorldState& world, const TensorType& type, const Mesh& mesh, const Layout& layout) {
  if (summands_of(type, mesh, layout)) return false;
  if (world.ranks.alone()) return true;
  std::map<int, std::set<std::string>> boxes;  // by rank
  std::map<int, std::int64_t> elements;        // number of elements in the boxes, by rank
  for (int position = 0; position < mesh.size(); ++position) {
    const int rank = mesh.devices[static_cast<std::size_t>(position)].rank;
    const Box box = local_box(type.shape, mesh, layout, position);
    if (boxes[rank].insert(join(box, " ", [](const Range& r) { return cat(r.begin, ":", r.end); })).second)
      elements[rank] += count_of(shape_of(box));
  }
  return static_cast<int>(elements.size()) == world.ranks.ranks() &&
         std::all_of(elements.begin(), elements.end(), [&](const auto& entry) { return entry.second == type.count(); });
}

runtime::Result start_gather(WorldState& world, const VariableKey& key, const StoredVariable& variable,
                             SourceLine where) {
  const std::string name = session_name(key), type = sbp::print(variable.type, variable.mesh, variable.layout);
  const auto make = [&](Trace& trace) {
    const ValueId read = build::variable(trace.builder, name, variable.type);
    trace.graph.variables.push_back({name, variable.type, trace.builder.mesh, variable.layout, read, {}});
    return read;
  };
  return launch_gather(
      world,
      request_read(world, cat("variable '", VariableTable::display_name(key, variable).first, "', ", type), where),
      cat("variable ", name, " ", type), variable.mesh, {}, make);
}

runtime::Result start_gather(WorldState& world, const ArraySpec& spec, const std::optional<runtime::Result>& part,
                             SourceLine where) {
  const std::string type = sbp::print(spec.type, spec.mesh, spec.layout);
  const auto make = [&](Trace& trace) {
    return array_value(trace.builder, "array", spec.type, spec.mesh, spec.layout);
  };
  Results arrays;
  if (part) arrays.emplace_back("array", *part);
  return launch_gather(world, request_read(world, type, where), cat("array ", type, " ", format_mesh(spec.mesh)),
                       spec.mesh, arrays, make);
}

}  // namespace karez
