// Launches a compiled program: checks its inputs, lets the ranks agree on the call, and passes its arguments.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/compiled_function.h"
#include "karez/api/state/fixed_layouts.h"
#include "karez/api/state/local_part.h"
#include "karez/data/array_source.h"
#include "karez/data/stages/batch_rows.h"
#include "karez/runtime/launch/failure.h"

namespace karez {

// Returns an argument's entry in the signature, and copies the bytes of a host array.
Function::ArgumentSignature Function::argument_signature(const State& s, Argument& argument, std::size_t number) {
  WorldState& world = *s.mesh.world;
  if (argument.on_mesh.valid()) {
    const ArrayValue& array = ArrayValue::of(argument.on_mesh);
    require(array.living_world().get() == &world, "argument ", number, " of function '", s.options.name,
            "' is an array of a different world; pass the host array that read() returns");
    return {array.spec->type, *array.spec};
  }
  const bool prefetched = !argument.array.valid();
  if (!prefetched)
    argument.feed = {argument.batch_rows ? data::rows_source(argument.array, argument.batch_rows)
                     : argument.donated  ? array_source(argument.array)
                                         : world.copies.copy(argument.array),
                     0};
  require(argument.feed.source != nullptr, "argument ", number, " of function '", s.options.name, "' has no source");
  if (!argument.part) return {argument.feed.source->type(), {}, prefetched};
  const std::string description = cat("argument ", number, " of function '", s.options.name, "' (",
                                      karez::print(s.where), "), a part passed by local(),");
  const LocalPart part =
      local_part(argument.array.type(), argument.rows, meshes_of(s.mesh, s.options), world.ranks.rank(), description);
  argument.feed.source = part_source(argument.feed.source, part);
  return {part.whole, {}, false, part.axes};
}

// With several ranks, begins an op for the call, with which the ranks compare their calls and arguments.
std::uint64_t Function::begin_call(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments) {
  constexpr int fully_checked_calls = 3;
  WorldState& world = *s.mesh.world;
  const std::string call = cat("a call of function '", s.options.name, "' (", karez::print(s.where), ")");
  const InputCheck check = world.options.check_inputs;
  const int number = ++c.calls;
  runtime::InputHashes hashes;
  if (check != InputCheck::off) {
    CallInputs inputs{arguments, {}};
    for (const auto& scalar : c.scalars) inputs.numbers.emplace_back(scalar.name, scalar.value());
    if (check == InputCheck::full || number <= fully_checked_calls) agree_on_inputs(world, call, number, inputs);
    else hashes = sampled_hashes(inputs, static_cast<std::uint64_t>(number) * InputHashes::capacity);
  }
  return world.session.begin_op({.hash = c.plan.program_hash, .what = call, .inputs = hashes});
}

Future Function::launch(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments) {
  Session& session = s.mesh.world->session;
  const bool is_single_rank = s.mesh.world->ranks.alone();
  try {
    for (const IndexCheck& check : c.index_checks) check.validate(arguments, is_single_rank);
  } catch (const Error&) {
    // Normally all ranks find the invalid index, and no rank begins the call. If only some ranks find it, the ranks
    // have passed different arguments, which all ranks report.
    session.begin_op({.hash = c.plan.program_hash,
                      .what = cat("a call of '", s.options.name, "' with an index out of range"),
                      .is_barrier = true});
    throw;
  }
  const std::uint64_t op = is_single_rank ? 0 : begin_call(s, c, arguments);
  if (c.session_plan == nullptr)
    return Future(std::make_shared<const Future::State>(
        Future::State{s.mesh.world->shared_from_this(), session.launch_remote(op), c.results}));
  try {
    return launch_with_op(s, c, arguments, op);
  } catch (...) {
    if (op != 0) session.fail_ranks(runtime::current_error());  // the other ranks wait for this rank
    throw;
  }
}

Future Function::launch_with_op(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments,
                                std::uint64_t op) {
  std::vector<LaunchInput> inputs;
  bool reads_host = false;
  inputs.reserve(c.plan_inputs.size());
  for (const PlanInput& input : c.plan_inputs) {
    if (input.scalar) {
      const HostScalar& scalar = c.scalars[*input.scalar];
      HostArray value(TensorType{scalar.dtype, {}});
      with_type(scalar.dtype, [&]<class T>() { value.data<T>()[0] = static_cast<T>(scalar.value()); });
      inputs.emplace_back(Feed{array_source(value), 0});
      continue;
    }
    const Argument& argument = arguments[*input.argument];
    if (argument.on_mesh.valid()) inputs.emplace_back(*ArrayValue::of(argument.on_mesh).result);
    else if (reads_host = true; input.row_groups > 0)
      inputs.emplace_back(group_rows(argument.feed, input.row_groups, s.options.microbatches));
    else inputs.emplace_back(argument.feed);
  }
  if (reads_host)
    if (const auto stall = s.mesh.world->data_threads->stalls_of_launch().take())
      c.stalls.add(runtime::ticks(), *stall);
  Launch launch = s.mesh.world->session.launch_in_order(c.session_plan->number(), inputs, op);
  for (const PlannedVariable& variable : c.variables)
    if (variable.is_updated) variable.parameter.count_write();
  for (std::size_t i = c.results->result_indices.size(); i < c.results->specs.size(); ++i)
    c.results->result_indices.push_back(launch.index_of(cat("out", i)));
  return Future(std::make_shared<const Future::State>(
      Future::State{s.mesh.world->shared_from_this(), std::move(launch), c.results}));
}

}  // namespace karez
