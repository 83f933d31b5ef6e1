// Derives lanes and memory spans from simulated acts.
#include "karez/report/timeline.h"

#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/report/table.h"

namespace karez::report {
namespace {

std::string text_of(const Plan& plan, const SimulatedAct& act, std::int64_t acts) {
  const Actor& actor = plan.actor(act.actor);
  const std::string& where = actor.collective ? actor.collective->where : actor.where;
  return cat("a", act.actor, " ", actor.name, acts > 1 ? cat(", act ", act.act) : "", ": ",
             microseconds(act.end - act.begin), " us from ", microseconds(act.begin),
             where.empty() ? "" : cat(", ", where));
}

// The times at which the acts of one launch begin and end.
class Times {
 public:
  Times(const Plan& plan, const Simulation& run) : launch_{0, run.makespan}, acts_(plan.actors.size()) {
    const auto acts_of_launch = acts_per_launch(plan);
    for (ActorId a : plan.actors.ids()) acts_[a].resize(static_cast<std::size_t>(acts_of_launch[a]), launch_);
    for (const SimulatedAct& act : run.acts)
      if (act.act < acts_of_launch[act.actor])
        acts_[act.actor][static_cast<std::size_t>(act.act)] = {act.begin, std::min(act.end, run.makespan)};
  }
  struct Time {
    double begin = 0, end = 0;
  };
  std::int64_t acts(ActorId actor) const { return static_cast<std::int64_t>(acts_[actor].size()); }
  const Time& of(ActorId actor, std::int64_t act) const {
    return actor == session_actor ? launch_ : acts_[actor][static_cast<std::size_t>(act)];
  }

 private:
  Time launch_;
  ById<ActorId, std::vector<Time>> acts_;
};

int period_of(const std::vector<Port>& ports, RegisterId reg) {
  for (const Port& port : ports)
    if (port.reg == reg) return port.period;
  return 1;
}

class MemoryTimelineBuilder {
 public:
  MemoryTimelineBuilder(const Plan& plan, const Simulation& run)
      : plan_(plan),
        times_(plan, run),
        makespan_(run.makespan),
        first_byte_(plan.blocks.size()) {
    out_.resize(plan.devices.size());
    for (bool permanent : {true, false})  // memory that is always in use has the lowest offsets
      for (BlockId b : plan.blocks.ids()) {
        if (lasts(b) != permanent || is_external(b)) continue;
        MemoryTimeline& memory = out_[plan.block(b).device];
        first_byte_[b] = memory.bytes;
        memory.bytes += plan.block(b).bytes;
      }
  }
  ById<DeviceId, MemoryTimeline> run() {
    for (BlockId b : plan_.blocks.ids()) add_block(b);
    for (RegisterId r : plan_.registers.ids()) add_register(r);
    for (ActorId a : plan_.actors.ids())
      for (std::int64_t act = 0; act < times_.acts(a); ++act) add_scratch(a, act);
    return std::move(out_);
  }

 private:
  bool lasts(BlockId b) const {
    const BlockKind kind = plan_.block(b).kind;
    return kind == BlockKind::variable || kind == BlockKind::constant;
  }
  bool is_external(BlockId b) const { return plan_.block(b).kind == BlockKind::external; }  // not memory of the plan
  void add(BlockId b, Times::Time time, std::int64_t offset, std::int64_t bytes, std::string_view kind,
           std::string label) {
    out_[plan_.block(b).device].spans.push_back(
        {time.begin, time.end, first_byte_[b] + offset, bytes, std::string(kind), std::move(label)});
  }
  void add_block(BlockId b) {
    const Block& block = plan_.block(b);
    if (block.bytes == 0 || !lasts(b)) return;
    add(b, {0, makespan_}, 0, block.bytes, name_of(block.kind),
        cat(name_of(block.kind), " ", block.name, block.layout.empty() ? "" : cat(" ", block.layout), ", ",
            bytes_text(block.bytes)));
  }
  std::int64_t fills(RegisterId r) const {
    const ActorId producer = plan_.reg(r).producer;
    return producer == session_actor ? 1 : times_.acts(producer) / period_of(plan_.actor(producer).outputs, r);
  }
  void add_register(RegisterId r) {
    const Register& reg = plan_.reg(r);
    if (!reg.block.valid() || lasts(reg.block) || is_external(reg.block)) return;
    for (std::int64_t piece = 0; piece < fills(r); ++piece) {
      const int write_period = reg.producer == session_actor ? 1 : period_of(plan_.actor(reg.producer).outputs, r);
      Times::Time time{times_.of(reg.producer, piece * write_period).begin, 0};
      for (ActorId consumer : reg.consumers) {
        const int read_period = consumer == session_actor ? 1 : period_of(plan_.actor(consumer).inputs, r);
        time.end = std::max(time.end, times_.of(consumer, piece * read_period + read_period - 1).end);
      }
      const std::int64_t slot = piece % reg.slots;
      add(reg.block, time, reg.offset + slot * reg.stride, reg.bytes, "register",
          cat("r", r, reg.slots > 1 ? cat(" slot ", slot, " of ", reg.slots) : "", ": ", reg.type, ", ",
              bytes_text(reg.bytes), ", ", microseconds(time.begin), " to ", microseconds(time.end), " us"));
    }
  }
  void add_scratch(ActorId a, std::int64_t act) {
    const Actor& actor = plan_.actor(a);
    std::map<BlockId, std::vector<std::pair<std::int64_t, std::int64_t>>> ranges_by_block;
    auto add_operand = [&](const Operand& o) {
      if (!o.reg.valid() && o.block.valid() && o.view.bytes() > 0 && !lasts(o.block))
        ranges_by_block[o.block].emplace_back(o.offset, o.offset + o.view.bytes());
    };
    for (const Call& call : actor.calls) {
      if (!call.acts.has(act)) continue;
      for (const Operand& in : call.in) add_operand(in);
      for (const Operand& out : call.out) add_operand(out);
      if (call.workspace) add_operand(*call.workspace);
    }
    if (actor.collective && actor.collective->staging) add_operand(*actor.collective->staging);
    for (auto& [block, ranges] : ranges_by_block) {
      std::sort(ranges.begin(), ranges.end());
      for (std::size_t i = 0; i < ranges.size();) {
        auto [begin, end] = ranges[i];
        for (++i; i < ranges.size() && ranges[i].first <= end; ++i) end = std::max(end, ranges[i].second);
        add(block, times_.of(a, act), begin, end - begin, "scratch",
            cat("scratch of a", a, " ", actor.name, ", ", bytes_text(end - begin)));
      }
    }
  }

  const Plan& plan_;
  const Times times_;
  const double makespan_;
  ById<BlockId, std::int64_t> first_byte_;  // offset of the block among the device's blocks
  ById<DeviceId, MemoryTimeline> out_;
};

}  // namespace

std::vector<Lane> lanes_of(const Plan& plan, const Simulation& run) {
  const auto acts_of_launch = acts_per_launch(plan);
  ById<StreamId, Lane> lanes;
  for (const Stream& stream : plan.streams) lanes.push_back({stream.device, cat(stream.kind), {}});
  for (const SimulatedAct& act : run.acts) {
    const Actor& actor = plan.actor(act.actor);
    if (act.act < acts_of_launch[act.actor] && act.begin <= run.makespan)
      lanes[actor.stream].spans.push_back({act.begin, std::min(act.end, run.makespan), std::string(name_of(actor.body)),
                                           text_of(plan, act, acts_of_launch[act.actor])});
  }
  std::vector<Lane> out;
  for (DeviceId d : plan.devices.ids())
    for (Lane& lane : lanes)
      if (lane.device == d && !lane.spans.empty()) out.push_back(std::move(lane));
  for (Lane& lane : out)
    std::stable_sort(lane.spans.begin(), lane.spans.end(),
                     [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return out;
}

ById<DeviceId, MemoryTimeline> memory_of(const Plan& plan, const Simulation& run, std::size_t max_spans) {
  ById<DeviceId, MemoryTimeline> out = MemoryTimelineBuilder(plan, run).run();
  for (MemoryTimeline& memory : out) {
    if (memory.spans.size() <= max_spans) continue;
    std::stable_sort(memory.spans.begin(), memory.spans.end(),
                     [](const MemorySpan& a, const MemorySpan& b) { return a.bytes > b.bytes; });
    memory.omitted = static_cast<std::int64_t>(memory.spans.size() - max_spans);
    memory.spans.resize(max_spans);
  }
  return out;
}

}  // namespace karez::report
