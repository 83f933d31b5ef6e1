// Collects the bindings of a plan from its actors.
#include "karez/runtime/load/plan_bindings.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "karez/plan/external_registers.h"
#include "karez/runtime/load/block_memory.h"

namespace karez::runtime {
namespace {

bool binds(const Actor& actor) { return actor.body == BodyKind::input || actor.body == BodyKind::fetch; }
std::vector<PlanBinding>& bindings_of(LoadedPlan& loaded, const Actor& actor) {
  return actor.body == BodyKind::input ? loaded.inputs : loaded.outputs;
}
auto find_binding(std::vector<PlanBinding>& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(), [&](const PlanBinding& b) { return b.layout->name == name; });
}

// Returns the index of a binding's first shard in LaunchRecord::targets.
std::size_t first_target(const std::vector<PlanBinding>& list, std::vector<PlanBinding>::const_iterator binding) {
  std::size_t target = 0;
  for (auto before = list.begin(); before != binding; ++before) target += before->layout->shards.size();
  return target;
}

// Returns the part of the whole value that an operand covers, and sets `whole` to the shape of the whole value. A fetch
// without a slice covers the whole value.
ShardLayout::Shard find_part(const LoadedPlan& loaded, const Actor& actor, std::size_t operand, Shape& whole) {
  const View& view = actor.bound[operand].view;
  const DeviceId device = loaded.plan.stream(actor.stream).device;
  const bool sliced = operand < actor.slices.size();
  whole = sliced ? actor.slices[operand].ints("shape") : view.shape;
  return {loaded.plan.devices[device], loaded.devices[device],
          sliced ? actor.slices[operand].ints("begin") : Ints(view.shape.size(), 0), View(view.dtype, view.shape)};
}

}  // namespace

void make_bindings(LoadedPlan& loaded) {
  for (const Actor& actor : loaded.plan.actors) {
    if (!binds(actor)) continue;
    auto& list = bindings_of(loaded, actor);
    for (std::size_t i = 0; i < actor.bound.size(); ++i) {
      Shape whole;
      ShardLayout::Shard part = find_part(loaded, actor, i, whole);
      const TensorType type{part.view.dtype, whole};
      auto at = find_binding(list, actor.binding);
      if (at == list.end())
        at = list.insert(at, {std::make_shared<ShardLayout>(ShardLayout{actor.binding, type, {}}), actor.where});
      ShardLayout& layout = *at->layout;
      require(layout.type == type, "plan '", loaded.plan.name, "': binding '", actor.binding, "' has two types, ",
              layout.type, " and ", type);
      auto before = [](const ShardLayout::Shard& a, const ShardLayout::Shard& b) {
        return std::tie(a.place.rank, a.place.device, a.begin, a.view.shape) <
               std::tie(b.place.rank, b.place.device, b.begin, b.view.shape);
      };
      auto place = std::lower_bound(layout.shards.begin(), layout.shards.end(), part, before);
      if (place == layout.shards.end() || *place != part) layout.shards.insert(place, std::move(part));
    }
  }
}

void bind_operands(LoadedPlan& loaded, ActorState& a) {
  const Actor& actor = *a.actor;
  if (!binds(actor)) return;
  auto& list = bindings_of(loaded, actor);
  auto at = find_binding(list, actor.binding);
  a.binding = static_cast<int>(at - list.begin());
  a.bound.resize(actor.bound.size());
  for (std::size_t i = 0; i < actor.bound.size(); ++i) {
    Shape whole;
    const ShardLayout::Shard part = find_part(loaded, actor, i, whole);
    const auto& parts = at->layout->shards;
    a.bound[i].view = &actor.bound[i].view;
    if (actor.slices.empty()) a.bound[i].begin = {part.begin};
    for (std::size_t slice = i; slice < actor.slices.size(); slice += actor.bound.size())
      a.bound[i].begin.push_back(actor.slices[slice].ints("begin"));
    a.bound[i].shard = static_cast<std::size_t>(std::find(parts.begin(), parts.end(), part) - parts.begin());
    a.bound[i].target_view = &parts[a.bound[i].shard].view;
    a.bound[i].target = first_target(list, at) + a.bound[i].shard;
    locate(loaded, a, actor.bound[i], &a.bound[i].address);
    if (actor.body != BodyKind::input || !actor.bound[i].reg.valid() ||
        loaded.slot_addresses[actor.bound[i].reg].empty())
      continue;
    const auto port = std::find_if(actor.outputs.begin(), actor.outputs.end(),
                                   [&](const Port& p) { return p.reg == actor.bound[i].reg; });
    a.bound[i].slot_addresses = loaded.slot_addresses[actor.bound[i].reg].data();
    a.bound[i].port = static_cast<int>(port - actor.outputs.begin());
  }
}

void bind_results(LoadedPlan& loaded, ActorState& a) {
  for (std::size_t port = 0; port < a.actor->outputs.size(); ++port) {
    const RegisterId reg = a.actor->outputs[port].reg;
    if (!is_external(loaded.plan, reg)) continue;
    const plan::Block& block = loaded.plan.block(loaded.plan.reg(reg).block);
    const auto binding = find_binding(loaded.outputs, block.name);
    const auto& shards = binding->layout->shards;  // a device has at most one shard
    const auto shard = std::find_if(shards.begin(), shards.end(), [&](const ShardLayout::Shard& s) {
      return s.place == loaded.plan.devices[block.device];
    });
    a.results.push_back({static_cast<int>(port),
                         first_target(loaded.outputs, binding) + static_cast<std::size_t>(shard - shards.begin()),
                         loaded.slot_addresses[reg].data()});
  }
}

}  // namespace karez::runtime
