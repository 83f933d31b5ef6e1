// The rules by which lanes and slots grow and shrink.
#include "karez/data/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::data {
namespace {

constexpr double window = 1;            // seconds over which times are averaged
constexpr double clearly_full = 0.5;    // the share of a period after which lanes are doubled
constexpr double slightly_full = 0.02;  // the share of the window after which a lane is added
constexpr double bursts = 0.02;         // the share of the window in which a stage is blocked, and later awaited
constexpr double longest_wait = 60;     // seconds until a number that was useless is tried again

// Times of clocks that jump do no harm.
double valid(double seconds) { return seconds > 0 ? std::min(seconds, 1e6) : 0; }

UnitTimes valid(UnitTimes times) {
  times.full = valid(times.full), times.acting = valid(times.acting), times.computing = valid(times.computing);
  for (UnitTimes::Register& at : times.registers) at = {valid(at.blocked), valid(at.awaited)};
  return times;
}

int percent(double share) { return static_cast<int>(std::lround(100 * std::clamp(share, 0.0, 1.0))); }

}  // namespace

Tuner::Tuner(std::vector<TunedUnit> units, const TunerLimits& limits)
    : units_(std::move(units)),
      limits_(limits),
      states_(units_.size()),
      bytes_(units_.size(), 0) {
  require(limits.cores >= 1 && limits.threads >= 1, "the tuner needs at least 1 core and 1 thread, got ", limits.cores,
          " and ", limits.threads);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    State& state = states_[i];
    state.registers.resize(units_[i].stages.size());
    if (units_[i].numbers == nullptr) continue;
    state.acting = 1e-9, state.computing = 1e-9 * units_[i].numbers->core_share;  // until it is measured
    state.lanes = std::clamp(units_[i].numbers->lanes.load(), 1, lane_cap(i));
    state.slots = units_[i].numbers->slots;
  }
  for (std::size_t i = 0; i < units_.size(); ++i)
    states_[i].slots = std::clamp(states_[i].slots, least_slots(i), units_[i].most_slots);
}

double Tuner::core_share(std::size_t unit) const {
  const State& state = states_[unit];
  if (state.acting <= 0) return 1;
  const double share = std::clamp(state.computing / state.acting, 0.0, 1.0);
  return share > 0.8 ? 1 : share < 0.1 ? 0 : share;
}

// So many lanes that the acts that compute use all cores.
int Tuner::lane_cap(std::size_t unit) const {
  const TunedUnit& tuned = units_[unit];
  int others = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) others += i == unit ? 0 : states_[i].lanes;
  const int threads = std::max(1, std::min(tuned.most_lanes, limits_.threads - others));
  const double share = core_share(unit);
  return share == 0 ? threads : std::min(threads, static_cast<int>(std::ceil(limits_.cores / share - 1e-9)));
}

// A stage has twice as many slots as lanes, so that lanes are busy while one of them computes for longer than the
// others.
int Tuner::least_slots(std::size_t unit) const {
  const TunedUnit& tuned = units_[unit];
  int least =
      std::max(tuned.least_slots, tuned.most_lanes > 1 && tuned.stages.size() == 1 ? 2 * states_[unit].lanes : 1);
  if (tuned.consumer >= 0) least = std::max(least, states_[static_cast<std::size_t>(tuned.consumer)].lanes + 1);
  return std::min(least, tuned.most_slots);
}

// Whether the limit of bytes allows this number of slots.
bool Tuner::fits(std::size_t unit, int slots) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < units_.size(); ++i)
    bytes += bytes_[i] * static_cast<std::int64_t>(units_[i].stages.size()) * (i == unit ? slots : states_[i].slots);
  return bytes <= limits_.bytes;
}

bool Tuner::step(double seconds, std::span<const UnitTimes> measured) {
  require(measured.size() == units_.size(), "the tuner has ", units_.size(), " units, got the times of ",
          measured.size());
  if (!(seconds > 0)) return false;
  seconds = valid(seconds);
  std::vector<UnitTimes> times;
  for (const UnitTimes& unit : measured) times.push_back(valid(unit));
  std::vector<std::pair<int, int>> before;
  for (const State& state : states_) before.emplace_back(state.lanes, state.slots);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    bytes_[i] = times[i].bytes;
    if (units_[i].most_lanes > 1) choose_lanes(i, seconds, times[i]);
  }
  for (std::size_t i = 0; i < units_.size(); ++i) choose_slots(i, seconds, times[i]);
  bool changed = false;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const State& state = states_[i];
    changed |= before[i] != std::pair(state.lanes, state.slots);
    if (units_[i].numbers == nullptr) continue;
    units_[i].numbers->lanes = state.lanes;
    units_[i].numbers->slots = state.slots;
    units_[i].numbers->core_share = core_share(i);
  }
  return changed;
}

void Tuner::add(State& state, double seconds, const UnitTimes& times) {
  const double keep = std::exp(-seconds / window);
  state.acting = state.acting * keep + times.acting;
  state.computing = state.computing * keep + times.computing;
  state.acts = state.acts * keep + static_cast<double>(times.acts);
  state.seconds = state.seconds * keep + seconds;
  state.full = state.full * keep + times.full;
  state.mean_lanes = state.mean_lanes * keep + (1 - keep) * times.acting / seconds;
  state.since_change += seconds;
}

void Tuner::set_lanes(State& state, int lanes, LanesReason reason, double share) {
  state.lanes = lanes, state.lanes_reason = reason, state.lanes_share = share;
  state.since_change = state.seconds = state.full = 0;
  state.acting *= 0.05, state.computing *= 0.05, state.acts *= 0.05;  // acts may take another time now
  state.mean_lanes = lanes;  // no further lane is taken away before this was measured
}

// More lanes are useless if the acts take longer in proportion, for example because they wait for a lock or a disk that
// serves one of them at a time. If the lanes are not all busy any more, another stage has become the slowest.
void Tuner::check_trial(State& state, double seconds, const UnitTimes& times) {
  Trial& trial = state.trial;
  if (!trial.active) return;
  if (!trial.settled) {  // acts that began before
    trial.settled = true;
    return;
  }
  trial.seconds += seconds, trial.full += times.full, trial.acting += times.acting, trial.acts += times.acts;
  if (trial.acts < 4 * state.lanes && trial.seconds < window / 2) return;
  trial.active = false;
  if (trial.acts == 0 || trial.rate <= 0 || trial.full < clearly_full * trial.seconds) return;
  const double growth = static_cast<double>(state.lanes) / trial.before - 1;
  const double rate = static_cast<double>(trial.acts) / trial.seconds;
  const double act_seconds = trial.acting / static_cast<double>(trial.acts);
  if (rate > (1 + growth / 10) * trial.rate || act_seconds < (1 + growth / 2) * trial.act_seconds) return;
  state.ceiling = trial.before;
  state.ceiling_act_seconds = trial.act_seconds;
  state.ceiling_left = state.next_ceiling;
  state.next_ceiling = std::min(2 * state.next_ceiling, longest_wait);
  set_lanes(state, trial.before, LanesReason::useless, growth);
}

void Tuner::choose_lanes(std::size_t unit, double seconds, const UnitTimes& times) {
  State& state = states_[unit];
  if (times.acts == 0 && times.full == 0 && times.acting == 0) return;  // nothing was needed: no evidence
  add(state, seconds, times);
  check_trial(state, seconds, times);
  const double act = act_seconds(state);
  if (state.ceiling > 0) {
    state.ceiling_left -= seconds;
    const bool other_acts = act > 1.5 * state.ceiling_act_seconds * std::max(1, state.lanes / state.ceiling) ||
                            1.5 * act < state.ceiling_act_seconds;
    if (state.ceiling_left <= 0 || (other_acts && state.since_change > window / 2)) state.ceiling = 0;
  }
  int cap = lane_cap(unit);
  if (state.lanes > cap) return set_lanes(state, cap, LanesReason::unused, state.mean_lanes);
  if (state.ceiling > 0) cap = std::min(cap, state.ceiling);
  if (state.lanes < cap && !state.trial.active && act >= limits_.short_act) {
    const double now = times.full / seconds, recently = state.full / state.seconds;
    int lanes = state.lanes;
    if (now > clearly_full) lanes = 2 * lanes;
    else if (recently > slightly_full && state.since_change > window / 4) lanes += std::max(1, lanes / 4);
    lanes = std::min(lanes, cap);
    const TunedUnit& tuned = units_[unit];
    if (lanes > state.lanes && (tuned.stages.size() > 1 || fits(unit, std::max(state.slots, 2 * lanes)))) {
      const double rate = static_cast<double>(times.acts) / seconds;
      state.trial = {true, false, state.lanes, rate, act};
      if (state.has_shrunk) state.shrink_wait = std::min(2 * state.shrink_wait, longest_wait);
      state.has_shrunk = false;
      return set_lanes(state, lanes, LanesReason::busy, std::max(now, recently));
    }
  }
  const int needed = std::max(1, static_cast<int>(std::ceil(1.3 * state.mean_lanes)));
  if (state.since_change < state.shrink_wait || state.full > 0.005 * state.seconds || 5 * needed > 4 * state.lanes)
    return;
  state.has_shrunk = true;
  set_lanes(state, needed, LanesReason::unused, state.mean_lanes);
}

void Tuner::choose_slots(std::size_t unit, double seconds, const UnitTimes& times) {
  State& state = states_[unit];
  const TunedUnit& tuned = units_[unit];
  const int least = least_slots(unit);
  if (state.slots < least) state.slots = least, state.slots_reason = SlotsReason::lanes;
  const double keep = std::exp(-seconds / window);
  state.register_seconds = state.register_seconds * keep + seconds;
  double share = 0, awaited = 0;
  for (std::size_t i = 0; i < state.registers.size(); ++i) {
    UnitTimes::Register& sum = state.registers[i];
    const UnitTimes::Register now = i < times.registers.size() ? times.registers[i] : UnitTimes::Register{};
    sum.blocked = sum.blocked * keep + now.blocked;
    sum.awaited = sum.awaited * keep + now.awaited;
    share = std::max(share, std::min(sum.blocked, sum.awaited) / std::max(state.register_seconds, window / 2));
    awaited += now.awaited;
  }
  const auto restart = [&](int slots, SlotsReason reason) {
    state.slots = slots, state.slots_reason = reason, state.slots_share = share;
    state.registers.assign(state.registers.size(), {});
    state.register_seconds = state.calm_slots = 0;
  };
  if (share > bursts && state.slots < tuned.most_slots) {
    const int more = std::min(2 * state.slots, tuned.most_slots);
    if (fits(unit, more)) {
      if (state.slots == state.slots_floor) state.slots_wait = std::min(2 * state.slots_wait, 60 * longest_wait);
      return restart(more, SlotsReason::bursts);
    }
    state.slots_reason = SlotsReason::bytes, state.slots_share = share;
  }
  if (times.acts > 0 || awaited > 0) state.calm_slots = awaited > 0.002 * seconds ? 0 : state.calm_slots + seconds;
  const bool too_large = state.slots > least && !fits(unit, state.slots);
  if (state.slots > least && (too_large || state.calm_slots > state.slots_wait)) {
    restart(std::max(least, state.slots / 2), too_large ? SlotsReason::bytes : SlotsReason::unused);
    state.slots_floor = state.slots;
  }
}

std::string Tuner::text(std::size_t unit) const {
  const State& state = states_[unit];
  const TunedUnit& tuned = units_[unit];
  std::string out;
  if (tuned.most_lanes > 1) {
    const int cap = lane_cap(unit);
    out = cat("lanes ", state.lanes, " of at most ", cap);
    if (cap < tuned.most_lanes && core_share(unit) > 0)
      out += cat(" (acts need ", percent(core_share(unit)), " % of a core, and there ",
                 limits_.cores == 1 ? "is 1 core" : cat("are ", limits_.cores, " cores"), ")");
    switch (state.lanes_reason) {
      case LanesReason::start:
        out += state.acts > 0 && act_seconds(state) < limits_.short_act
                   ? ": its acts take less time than to wake a thread"
                   : ": no more were needed";
        break;
      case LanesReason::busy:
        out += cat(": fewer were all busy for ", percent(state.lanes_share), " % of the time while the reader waited");
        break;
      case LanesReason::useless: out += ": with more, its acts took longer in proportion"; break;
      case LanesReason::unused: {
        const auto tenths = static_cast<std::int64_t>(std::lround(10 * state.lanes_share));
        out += cat(": on average, ", tenths / 10, ".", tenths % 10, " were busy");
      }
    }
    out += "; ";
  }
  out += cat("slots ", state.slots);
  switch (state.slots_reason) {
    case SlotsReason::start: out += ": no more were needed"; break;
    case SlotsReason::lanes: out += ": for the lanes"; break;
    case SlotsReason::bursts:
      out += cat(": with fewer, the actor lacked a slot and its reader lacked an element, each for ",
                 percent(state.slots_share), " % of the time");
      break;
    case SlotsReason::bytes: out += cat(": more would need more than ", limits_.bytes, " bytes"); break;
    case SlotsReason::unused: out += ": the reader did not wait with more"; break;
  }
  return out;
}

}  // namespace karez::data
