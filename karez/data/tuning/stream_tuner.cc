// Adds up the times in which stages lack a lane, a slot or an element.
#include "karez/data/tuning/stream_tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "karez/base/text.h"

namespace karez::data {

namespace {
constexpr double actor_window = 0.2;  // seconds over which the times of actors that call functions are averaged
}

using plan::StageId;
using plan::StageObstacle;

StreamTuner::StreamTuner(StageMachine& machine, const TunerLimits& limits)
    : machine_(machine),
      short_act_(limits.short_act),
      tuner_(machine.tree().tuned, limits),
      unit_of_(machine.graph().stages.size(), -1),
      units_(tuner_.units().size()),
      times_(units_.size()),
      measured_(units_.size(), 0) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    for (StageId stage : units()[i].stages) {
      unit_of_[stage] = static_cast<int>(i);
      units_[i].registers.push_back({stage});
    }
  for (StageId stage : machine.graph().stages.ids()) {
    const StageWork& work = machine.tree().work[stage];
    if (work.fused.empty()) continue;
    FusedActor& actor = fused_.emplace_back(FusedActor{.stage = stage});
    for (const auto& numbers : work.fused) actor.calls.push_back(numbers->calls), actor.recent_calls.push_back(0);
  }
  clear_times();
  set_numbers();
}

void StreamTuner::clear_times() {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    times_[i] = {};
    times_[i].registers.resize(units_[i].registers.size());
    measured_[i] = 0;
  }
}

void StreamTuner::set_numbers() {
  for (std::size_t i = 0; i < units_.size(); ++i)
    machine_.set_numbers(i, tuner_.lanes(i), tuner_.slots(i), tuner_.core_share(i));
}

void StreamTuner::note(bool reader_waits, double now) {
  if (begin_ < 0) begin_ = since_ = made_ = now;
  const double passed = std::max(0.0, now - since_);  // threads may read the clock in another order than they call this
  since_ = std::max(since_, now);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    if (unit.full) times_[i].full += passed;
    bool lacks_lane = false, is_awaited = false;
    for (std::size_t k = 0; k < unit.registers.size(); ++k) {
      Register& at = unit.registers[k];
      if (at.blocked) times_[i].registers[k].blocked += passed;
      if (at.awaited) times_[i].registers[k].awaited += passed;
      const StageObstacle obstacle = machine_.obstacle(at.stage);
      at.blocked = obstacle == StageObstacle::slot;
      at.awaited = machine_.awaited(at.stage, reader_waits);
      lacks_lane |= obstacle == StageObstacle::lane;
      is_awaited |= at.awaited;
    }
    unit.full = lacks_lane && is_awaited;
  }
}

void StreamTuner::add_act(StageId stage, double seconds, double computing) {
  for (FusedActor& actor : fused_)
    if (actor.stage == stage) actor.acting += seconds;
  if (unit_of_[stage] < 0) return;
  UnitTimes& times = times_[unit(stage)];
  ++times.acts;
  times.acting += seconds;
  if (computing < 0) return;
  times.computing += std::min(computing, seconds);
  measured_[unit(stage)] += seconds;
}

bool StreamTuner::step(double now) {
  if (begin_ < 0 || now - begin_ < period) return false;
  const double seconds = now - begin_;
  begin_ = now;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    UnitTimes& times = times_[i];
    times.computing =
        measured_[i] > 0 ? times.computing * times.acting / measured_[i] : times.acting * tuner_.core_share(i);
    for (StageId stage : units()[i].stages) times.bytes = std::max(times.bytes, machine_.element_bytes(stage));
  }
  const bool changed = tuner_.step(seconds, times_);
  set_numbers();
  clear_times();
  choose_actors(now);
  return changed;
}

// A message between actors takes about a tenth of what waking a thread takes. If a function takes less than three times
// as long as a message, no number of lanes is as fast as one actor that calls it. Each change makes the next one later,
// so that a stage at the limit does not change all the time.
void StreamTuner::choose_actors(double now) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const TunedUnit& unit = units()[i];
    if (unit.most_lanes == 1 || unit.stages.size() > 1 || unit.processes || unit.numbers == nullptr) continue;
    if (tuner_.recent_acts(i) > 256 && tuner_.act_seconds(i) < 0.3 * short_act_) change(*unit.numbers, true, now);
  }
  const double keep = std::exp(-period / actor_window);
  for (FusedActor& actor : fused_) {
    const auto& fused = machine_.tree().work[actor.stage].fused;
    for (std::size_t i = 0; i < fused.size(); ++i) {
      const std::int64_t calls = fused[i]->calls;
      double& recent = actor.recent_calls[i];
      recent = recent * keep + static_cast<double>(calls - std::exchange(actor.calls[i], calls));
      if (recent > 16 && actor.acting > 2 * short_act_ * recent) change(*fused[i], false, now);
    }
    actor.acting *= keep;
  }
}

void StreamTuner::change(TunedNumbers& numbers, bool fused, double now) {
  if (now - made_ < 0.1 * std::pow(4, std::min(numbers.changes.load(), 2))) return;
  if (numbers.fused.exchange(fused) != fused) ++numbers.changes;
  wants_other_actors_ = true;
}

std::string StreamTuner::text() const {
  std::string out;
  for (const FusedActor& actor : fused_)
    out += cat("actor ", actor.stage,
               ": it calls functions with automatic lanes itself, because they take less time than ",
               "messages between actors\n");
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::vector<StageId>& stages = units()[i].stages;
    out += cat("actor", stages.size() > 1 ? cat("s ", stages.front(), " to ", stages.back()) : cat(" ", stages[0]),
               ": ", tuner_.text(i), "\n");
  }
  return out;
}

}  // namespace karez::data
