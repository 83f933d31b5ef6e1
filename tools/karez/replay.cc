// Replays a plan: prepares the plan as the engine does, then simulates one launch and records every call with the
// addresses of its operands.
#include "tools/karez/replay.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "karez/base/text.h"
#include "karez/plan/dry_run.h"
#include "karez/runtime/actor/actor_body.h"
#include "karez/runtime/actor/host_copy.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/load/plan_loader.h"
#include "karez/runtime/ticks.h"
#include "karez/runtime/variable_store.h"

namespace karez::tools {

struct Arguments {
  std::vector<std::byte*> in, out;
};

struct Replay::State {
  std::map<std::string, std::unique_ptr<Device>> devices;
  VariableStore variables;
  Mailbox box;  // never read, because no worker runs
  std::unique_ptr<LoadedPlan> loaded;
  Feeds feeds;
  std::deque<Arguments> arguments;  // a deque, so that their addresses are stable
  std::deque<View> output_views;    // views of the outputs that fetches write
  std::vector<std::function<void()>> calls;
  std::vector<std::pair<std::string, HostArray>> outputs;
  std::deque<HostArray> parts;      // of outputs that the plan computes only in part
  std::vector<std::byte*> targets;  // as in LaunchRecord
  TickScale scale;

  ActorState& actor(ActorId id) { return *loaded->worker_plan_of[id]->local[static_cast<std::size_t>(id.index) + 1]; }
  void deliver(const Message& m) {
    if (m.to != session_actor) actor(m.to).ports.take(m);
    else
      (m.kind == Message::Kind::filled ? loaded->session_ports.session_done : loaded->session_ports.session_start)
          .take(m);
  }

  void bind(ActorState& act) {
    prepare_memory(act, targets);  // sets the addresses to the slots of this act
    switch (act.work) {
      case WorkKind::calls:
        for (PreparedCall& call : act.calls) {
          if (!call.call->acts.has(act.ports.acts())) continue;
          const Arguments& bound = arguments.emplace_back(Arguments{call.in, call.out});
          calls.push_back([&run = call.run, args = KernelArgs{bound.in, bound.out, call.workspace}] { run(args); });
        }
        return;
      case WorkKind::read: {
        const std::string& name = act.actor->binding;
        const auto at = std::find_if(feeds.begin(), feeds.end(), [&](const auto& feed) { return feed.first == name; });
        require(at != feeds.end(), "replay: input '", name, "' has no feed");
        const std::int64_t slice_sets = static_cast<std::int64_t>(act.bound[0].begin.size()),
                           position = at->second.position + act.ports.acts() / slice_sets;
        const auto set = static_cast<std::size_t>(act.ports.acts() % slice_sets);
        for (const BoundOperand& bound : act.bound)
          calls.push_back([source = at->second.source.get(), position,
                           begin = std::span<const std::int64_t>(bound.begin[set]),
                           to = TensorRef{bound.address, bound.view}] { source->read(position, begin, to); });
        return;
      }
      case WorkKind::none:
        if (act.actor->body != BodyKind::fetch) return;
        [[fallthrough]];
      case WorkKind::fetch: {
        const HostArray& output = outputs[static_cast<std::size_t>(act.binding)].second;
        const BoundOperand& part = act.bound[0];
        View& to_view = output_views.emplace_back(output.dtype(), part.view->shape, output.view().strides);
        std::byte* to = output.bytes() + offset_of(part.begin[0], to_view.strides) * size_of(to_view.dtype);
        if (to == part.address) return;  // computed there
        calls.push_back(
            [to, &to_view, from = part.address, view = part.view] { copy_tensor(to, to_view, from, *view); });
        return;
      }
      case WorkKind::async_call:
      case WorkKind::collective: fail("replay: actor '", act.actor->name, "' cannot be run in a plain loop");
    }
  }
};

void require_replayable(const Plan& plan) {
  const auto collectives =
      std::count_if(plan.actors.begin(), plan.actors.end(), [](const Actor& a) { return a.collective.has_value(); });
  const auto first_collective =
      std::find_if(plan.actors.begin(), plan.actors.end(), [](const Actor& a) { return a.collective.has_value(); });
  require(collectives == 0, "replay: plan '", plan.name, "' has ", collectives, " collectives among ",
          plan.devices.size(), " devices (the first: ", collectives == 0 ? "" : first_collective->name,
          "); a plain loop on one thread runs plans of one device");
}

Replay::Replay(const Plan& plan, const KernelTable& kernels, const Feeds& feeds,
               const std::vector<VariableValue>& variables)
    : state_(std::make_unique<State>()) {
  require_replayable(plan);
  State& s = *state_;
  s.feeds = feeds;
  LoadOptions options;
  options.kernels = &kernels;
  options.boxes = {&s.box};
  options.device = [&s](const PlanDevice& d) -> Device& {
    auto& device = s.devices[device_name(d)];
    if (!device) device = make_device(device_name(d), d.kind);
    return *device;
  };
  s.loaded = prepare(plan, s.variables, options);
  for (const VariableValue& variable : variables) {
    const Memory& memory = s.variables.at(variable.device, variable.name)->memory;
    std::memcpy(memory.data(), variable.value.bytes(), static_cast<std::size_t>(variable.value.view().bytes()));
  }
  for (const PlanBinding& binding : s.loaded->outputs) {
    const ShardLayout& layout = *binding.layout;
    s.outputs.emplace_back(layout.name, HostArray(layout.type));
    for (const ShardLayout::Shard& shard : layout.shards)
      s.targets.push_back(shard.view.shape == layout.type.shape
                              ? s.outputs.back().second.bytes()
                              : s.parts.emplace_back(HostArray(shard.view.type())).bytes());
  }

  auto deliver = [&s](const Message& m) { s.deliver(m); };
  SessionPorts& session = s.loaded->session_ports;
  session.session_start.begin();
  session.session_start.complete(deliver);
  for (ActorId id : dry_run(plan).order) {
    ActorState& act = s.actor(id);
    act.ports.begin();
    s.bind(act);
    act.ports.complete(deliver);
  }
  require(session.session_done.ready(), "replay: the launch did not end");
}

Replay::~Replay() = default;

// The clock is read before and after each call; reading it counts as time outside of calls.
ReplayTimes Replay::launch() {
  std::int64_t ticks_in_calls = 0;
  const std::int64_t begin = ticks();
  for (const auto& call : state_->calls) {
    const std::int64_t call_begin = ticks();
    call();
    ticks_in_calls += ticks() - call_begin;
  }
  const std::int64_t total = ticks() - begin;
  const double seconds = state_->scale.ns_per_tick() * 1e-9;
  return {static_cast<double>(total) * seconds, static_cast<double>(ticks_in_calls) * seconds};
}

std::size_t Replay::calls() const { return state_->calls.size(); }
const std::vector<std::pair<std::string, HostArray>>& Replay::outputs() const { return state_->outputs; }

}  // namespace karez::tools
