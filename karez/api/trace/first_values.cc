// Member functions of World that concern first values of variables that no function has used yet, and the seed.
#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/trace.h"
#include "karez/api/world.h"

namespace karez {

bool World::has(const Parameter& parameter) const {
  WorldLock lock(*state_);
  return state_->variables.contains(parameter);
}

std::vector<HostArray> World::first_values(const std::vector<Parameter>& parameters) const {
  std::vector<HostArray> out(parameters.size());
  std::vector<std::size_t> initialised;  // indices of the parameters whose values come from their initialisers
  {
    WorldLock lock(*state_);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const PendingWeight* loaded = state_->variables.pending_weights.match({parameters[i]})[0];
      if (loaded != nullptr) out[i] = value_of(*loaded->file, loaded->offer, parameters[i].type());
      else initialised.push_back(i);
    }
  }
  if (initialised.empty()) return out;
  const auto body = [&](std::span<const Tensor>) {
    Trace& trace = Trace::current();
    const ValueId state = first_random_state(trace.builder, state_->options.seed);
    std::vector<Tensor> values;
    for (std::size_t i : initialised) values.push_back(trace.tensor(first_value(trace.builder, parameters[i], state)));
    return values;
  };
  const Future values =
      Function(mesh(), 0, body, {.train = false, .name = "first_values"}, SourceLine::current()).call({});
  for (std::size_t i = 0; i < initialised.size(); ++i) out[initialised[i]] = values.value(i).read();
  return out;
}

void World::seed(std::uint64_t seed) {
  HostArray counter(state_->counter.type());
  counter.data<std::int64_t>()[0] = static_cast<std::int64_t>(seed);
  {
    WorldLock lock(*state_);
    state_->options.seed = seed;
  }
  restart_sites();
  if (has(state_->counter)) write(state_->counter, counter);
}

}  // namespace karez
