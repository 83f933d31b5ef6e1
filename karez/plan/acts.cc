// Computes the number of acts of each actor in one launch. Rates propagate from the session along registers, in both
// directions.
#include "karez/plan/acts.h"

#include <algorithm>
#include <numeric>

#include "karez/plan/item_names.h"

namespace karez::plan {
namespace {

struct Rate {
  std::int64_t num = 0, den = 1;  // 0: not yet known
  bool is_known() const { return num != 0; }
  bool operator==(const Rate&) const = default;
};

Rate scaled(Rate rate, std::int64_t num, std::int64_t den) {
  Rate out{checked_mul(rate.num, num), checked_mul(rate.den, den)};
  std::int64_t common = std::gcd(out.num, out.den);
  return {out.num / common, out.den / common};
}

// The periods of the producer's and the consumers' ports of each register.
class PortPeriods {
 public:
  explicit PortPeriods(const Plan& plan)
      : write_periods_(plan.registers.size(), 0),
        read_periods_(plan.registers.size()) {
    auto is_in_plan = [&](RegisterId reg) {
      return reg.index >= 0 && static_cast<std::size_t>(reg.index) < plan.registers.size();
    };
    for (ActorId a : plan.actors.ids()) {
      for (const Port& port : plan.actors[a].outputs)
        if (is_in_plan(port.reg) && plan.registers[port.reg].producer == a && write_periods_[port.reg] == 0)
          write_periods_[port.reg] = port.period;
      for (const Port& port : plan.actors[a].inputs)
        if (is_in_plan(port.reg)) read_periods_[port.reg].emplace_back(a, port.period);
    }
  }
  int of(RegisterId reg, ActorId end, bool produces) const {
    if (produces) {
      require(write_periods_[reg] != 0, subject, reg, not_listed);
      return write_periods_[reg];
    }
    const auto at = std::lower_bound(read_periods_[reg].begin(), read_periods_[reg].end(), end,
                                     [](const auto& reader, ActorId a) { return reader.first < a; });
    require(at != read_periods_[reg].end() && at->first == end, subject, reg, not_listed);
    return at->second;
  }

 private:
  static constexpr const char *subject = "plan: register ",
                              *not_listed = " names an actor that does not list it among its ports";
  ById<RegisterId, int> write_periods_;
  ById<RegisterId, std::vector<std::pair<ActorId, int>>> read_periods_;  // ascending
};

std::string text_of(Rate rate) { return rate.den == 1 ? times_text(rate.num) : cat(rate.num, "/", rate.den, " times"); }

struct RatePropagation {
  const Plan& plan;
  const PortPeriods& periods;
  ById<ActorId, Rate> acts;
  std::vector<ActorId> reached;
  ById<RegisterId, bool> propagated;

  // Returns how often the register is filled in a launch, computed from the number of acts of the actor at one end.
  Rate fills(RegisterId reg, ActorId end, bool produces) {
    if (end == session_actor) return {1, 1};
    return scaled(acts[end], 1, periods.of(reg, end, produces));
  }
  void set_rate(RegisterId reg, Rate fill, ActorId end, bool produces) {
    if (end == session_actor) {
      require(fill == Rate{1, 1}, "plan: register ", reg, " (", plan.reg(reg).type,
              ") connects the session with an actor, so it must be filled once in a launch, but is filled ",
              text_of(fill));
      return;
    }
    const Actor& actor = plan.actor(end);
    Rate rate = scaled(fill, periods.of(reg, end, produces), 1);
    Rate& stored = acts[end];
    require(!stored.is_known() || stored == rate, "plan: actor ", end, " '", actor.name, "' would act ",
            text_of(stored), " in a launch, but register ", reg, " requires it to act ", text_of(rate));
    if (!stored.is_known()) {
      stored = rate;
      reached.push_back(end);
    }
  }
  void propagate(RegisterId reg, Rate fill) {
    if (propagated[reg]) return;  // all ends of the register already have this rate
    propagated[reg] = true;
    const Register& r = plan.reg(reg);
    set_rate(reg, fill, r.producer, true);
    for (ActorId consumer : r.consumers) set_rate(reg, fill, consumer, false);
  }
};

}  // namespace

ById<ActorId, std::int64_t> acts_per_launch(const Plan& plan) {
  const PortPeriods periods(plan);
  RatePropagation propagation{
      plan, periods, ById<ActorId, Rate>(plan.actors.size()), {}, ById<RegisterId, bool>(plan.registers.size(), false)};
  for (RegisterId i : plan.registers.ids()) {
    const Register& r = plan.registers[i];
    bool connects_session = r.producer == session_actor;
    for (ActorId consumer : r.consumers) connects_session |= consumer == session_actor;
    if (connects_session) propagation.propagate(i, {1, 1});
  }
  while (!propagation.reached.empty()) {
    ActorId id = propagation.reached.back();
    propagation.reached.pop_back();
    const Actor& actor = plan.actor(id);
    for (const Port& port : actor.inputs) propagation.propagate(port.reg, propagation.fills(port.reg, id, false));
    for (const Port& port : actor.outputs) propagation.propagate(port.reg, propagation.fills(port.reg, id, true));
  }
  ById<ActorId, std::int64_t> counts;
  for (ActorId i : plan.actors.ids()) {
    const Rate& rate = propagation.acts[i];
    require(rate.is_known(), "plan: actor ", i, " '", plan.actors[i].name, "' is not connected to the session");
    require(rate.den == 1, "plan: actor ", i, " '", plan.actors[i].name, "' would act ", text_of(rate),
            " in a launch; the number must be an integer");
    counts.push_back(rate.num);
  }
  return counts;
}

std::int64_t messages_per_launch(const Plan& plan) {
  auto acts = acts_per_launch(plan);
  const PortPeriods periods(plan);
  std::int64_t messages = 0;
  for (RegisterId i : plan.registers.ids()) {
    const Register& r = plan.registers[i];
    std::int64_t fills = r.producer == session_actor ? 1 : acts[r.producer] / periods.of(i, r.producer, true);
    messages = checked_add(messages, checked_mul(fills, 2 * static_cast<std::int64_t>(r.consumers.size())));
  }
  return messages;
}

}  // namespace karez::plan
