// How often each actor acts in one launch: rates spread from the session along registers, both ways.
#include "karez/plan/acts.h"

#include <algorithm>
#include <numeric>

namespace karez::plan {
namespace {

struct Rate {
  std::int64_t up = 0, down = 1;  // 0: not yet known
  bool known() const { return up != 0; }
  bool operator==(const Rate&) const = default;
};

Rate times(Rate rate, std::int64_t up, std::int64_t down) {
  Rate out{checked_mul(rate.up, up), checked_mul(rate.down, down)};
  std::int64_t common = std::gcd(out.up, out.down);
  return {out.up / common, out.down / common};
}

// By register: the periods at its two sides.
class Periods {
 public:
  explicit Periods(const Plan& plan) : written_(plan.registers.size(), 0), read_(plan.registers.size()) {
    auto known = [&](RegisterId reg) {
      return reg.index >= 0 && static_cast<std::size_t>(reg.index) < plan.registers.size();
    };
    for (ActorId a : plan.actors.ids()) {
      for (const Port& port : plan.actors[a].outputs)
        if (known(port.reg) && plan.registers[port.reg].producer == a && written_[port.reg] == 0)
          written_[port.reg] = port.period;
      for (const Port& port : plan.actors[a].inputs)
        if (known(port.reg)) read_[port.reg].emplace_back(a, port.period);
    }
  }
  int of(RegisterId reg, ActorId end, bool produces) const {
    if (produces) {
      require(written_[reg] != 0, not_listed, reg, by_an_actor);
      return written_[reg];
    }
    const auto at = std::lower_bound(read_[reg].begin(), read_[reg].end(), end,
                                     [](const auto& reader, ActorId a) { return reader.first < a; });
    require(at != read_[reg].end() && at->first == end, not_listed, reg, by_an_actor);
    return at->second;
  }

 private:
  static constexpr const char *not_listed = "plan: register ",
                              *by_an_actor = " is not listed by an actor that it names";
  ById<RegisterId, int> written_;
  ById<RegisterId, std::vector<std::pair<ActorId, int>>> read_;  // ascending
};

std::string text_of(Rate rate) { return rate.down == 1 ? cat(rate.up) : cat(rate.up, "/", rate.down); }

struct Spread {
  const Plan& plan;
  const Periods& periods;
  ById<ActorId, Rate> acts;
  std::vector<ActorId> reached;
  ById<RegisterId, bool> told;

  // Fills of the register per launch, as one of its ends sees them.
  Rate fills(RegisterId reg, ActorId end, bool produces) {
    if (end == session_actor) return {1, 1};
    return times(acts[end], 1, periods.of(reg, end, produces));
  }
  void tell(RegisterId reg, Rate fill, ActorId end, bool produces) {
    if (end == session_actor) {
      require(fill == Rate{1, 1}, "plan: register ", reg, " (", plan.reg(reg).type,
              ") is between the session and an actor, but moves ", text_of(fill), " times in a launch");
      return;
    }
    const Actor& actor = plan.actor(end);
    Rate rate = times(fill, periods.of(reg, end, produces), 1);
    Rate& known = acts[end];
    require(!known.known() || known == rate, "plan: actor ", end, " '", actor.name, "' would act ", text_of(known),
            " times in a launch, but register ", reg, " asks for ", text_of(rate));
    if (!known.known()) {
      known = rate;
      reached.push_back(end);
    }
  }
  void spread_from(RegisterId reg, Rate fill) {
    if (told[reg]) return;  // who was told agrees, or was refused
    told[reg] = true;
    const Register& r = plan.reg(reg);
    tell(reg, fill, r.producer, true);
    for (ActorId consumer : r.consumers) tell(reg, fill, consumer, false);
  }
};

}  // namespace

ById<ActorId, std::int64_t> acts_per_launch(const Plan& plan) {
  const Periods periods(plan);
  Spread spread{
      plan, periods, ById<ActorId, Rate>(plan.actors.size()), {}, ById<RegisterId, bool>(plan.registers.size(), false)};
  for (RegisterId i : plan.registers.ids()) {
    const Register& r = plan.registers[i];
    bool of_session = r.producer == session_actor;
    for (ActorId consumer : r.consumers) of_session |= consumer == session_actor;
    if (of_session) spread.spread_from(i, {1, 1});
  }
  while (!spread.reached.empty()) {
    ActorId id = spread.reached.back();
    spread.reached.pop_back();
    const Actor& actor = plan.actor(id);
    for (const Port& port : actor.inputs) spread.spread_from(port.reg, spread.fills(port.reg, id, false));
    for (const Port& port : actor.outputs) spread.spread_from(port.reg, spread.fills(port.reg, id, true));
  }
  ById<ActorId, std::int64_t> counts;
  for (ActorId i : plan.actors.ids()) {
    const Rate& rate = spread.acts[i];
    require(rate.known(), "plan: nothing connects actor ", i, " '", plan.actors[i].name, "' with the session");
    require(rate.down == 1, "plan: actor ", i, " '", plan.actors[i].name, "' would act ", text_of(rate),
            " times in a launch");
    counts.push_back(rate.up);
  }
  return counts;
}

std::int64_t messages_per_launch(const Plan& plan) {
  auto acts = acts_per_launch(plan);
  const Periods periods(plan);
  std::int64_t messages = 0;
  for (RegisterId i : plan.registers.ids()) {
    const Register& r = plan.registers[i];
    std::int64_t fills = r.producer == session_actor ? 1 : acts[r.producer] / periods.of(i, r.producer, true);
    messages = checked_add(messages, checked_mul(fills, 2 * static_cast<std::int64_t>(r.consumers.size())));
  }
  return messages;
}

}  // namespace karez::plan
