// Chooses the numbers of lanes and slots of a stream's stages while it runs, from the times of their acts. Without a
// clock: the caller measures.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/plan/stages.h"

namespace karez::data {

inline constexpr int most_tuned_lanes = 64, most_tuned_slots = 256;

// What a stream of a data set chose last, with which the next stream of this data set begins.
struct TunedNumbers {
  std::atomic<int> lanes{1}, slots{2};
  std::atomic<double> core_share{1};
  // Whether the function takes so little time that the actor before or after it calls it, as with one given lane.
  std::atomic<bool> fused{false};
  std::atomic<int> changes{0};         // of `fused`
  std::atomic<std::int64_t> calls{0};  // of the function
};

// Stages that have the same numbers: one stage, or the readers of `interleave`, at most `lanes` of which act at the
// same time.
struct TunedUnit {
  std::vector<plan::StageId> stages = {};
  int most_lanes = 1;   // 1: only slots are chosen
  int least_slots = 1;  // of each stage
  int most_slots = most_tuned_slots;
  int consumer = -1;                                // the unit whose lanes read the elements, if that is a single stage
  bool processes = false;                           // other processes compute the acts, so no other actor can
  std::shared_ptr<TunedNumbers> numbers = nullptr;  // may be null
};

struct TunerLimits {
  int cores = 1;                     // for acts that compute
  int threads = 256;                 // acts of this stream at the same time
  std::int64_t bytes = 256ll << 20;  // in the slots that are chosen; more slots than the least are not used for more
  double short_act = 10e-6;  // seconds; stages with shorter acts get one lane, because waking a thread costs more
};

// What happened in one period. All times are in seconds.
struct UnitTimes {
  double full = 0;       // a further lane would have begun an act, and the consumer waited for an element
  double acting = 0;     // the sum over all acts
  double computing = 0;  // the part of `acting` in which acts used a core, or waited for one
  std::int64_t acts = 0;
  std::int64_t bytes = 0;  // of a large element
  struct Register {
    double blocked = 0;  // the stage lacked only a slot
    double awaited = 0;  // the consumer lacked only an element of this stage
  };
  std::vector<Register> registers = {};  // by stage of the unit
};

class Tuner {
 public:
  Tuner(std::vector<TunedUnit> units, const TunerLimits& limits);

  // Chooses numbers after a period of this many seconds. Returns whether one of them has changed.
  bool step(double seconds, std::span<const UnitTimes> times);

  void set_cores(int cores) { limits_.cores = cores; }  // at least 1

  const std::vector<TunedUnit>& units() const { return units_; }
  int lanes(std::size_t unit) const { return states_[unit].lanes; }
  int slots(std::size_t unit) const { return states_[unit].slots; }  // of each stage of the unit
  // Of acts in about the last second: their number, and their mean time; 0 if there were none.
  double recent_acts(std::size_t unit) const { return states_[unit].acts; }
  double act_seconds(std::size_t unit) const { return act_seconds(states_[unit]); }
  // The part of a core that an act of the unit needs, from 0 to 1; 1 until it has been measured.
  double core_share(std::size_t unit) const;
  // Why the numbers are what they are: "lanes 3 of at most 64: all were busy for 97 % of the time ...".
  std::string text(std::size_t unit) const;

 private:
  enum class LanesReason : std::uint8_t { start, busy, useless, unused };
  enum class SlotsReason : std::uint8_t { start, lanes, bursts, bytes, unused };
  // The growth of a number of lanes whose effect is being measured.
  struct Trial {
    bool active = false, settled = false;
    int before = 1;  // lanes
    double rate = 0, act_seconds = 0;
    double seconds = 0, full = 0, acting = 0;  // since then
    std::int64_t acts = 0;
  };
  struct State {
    int lanes = 1, slots = 2;
    double acting = 0, computing = 0, acts = 0;  // sums in which older periods have less weight
    double seconds = 0, full = 0;                // the same, since the last change of lanes
    double mean_lanes = 0;                       // acts at the same time, averaged over about a second
    double since_change = 0;                     // seconds
    Trial trial;
    int ceiling = 0;  // more lanes have brought nothing; 0: none is known
    double ceiling_act_seconds = 0, ceiling_left = 0, next_ceiling = 5;
    double shrink_wait = 3;  // seconds without need before a lane is taken away
    bool has_shrunk = false;
    std::vector<UnitTimes::Register> registers;  // sums as above, since the last change of slots
    double register_seconds = 0, calm_slots = 0, slots_wait = 10;
    int slots_floor = 0;  // fewer have been too few
    LanesReason lanes_reason = LanesReason::start;
    double lanes_share = 0;
    SlotsReason slots_reason = SlotsReason::start;
    double slots_share = 0;
  };

  int lane_cap(std::size_t unit) const;
  int least_slots(std::size_t unit) const;
  double act_seconds(const State& state) const { return state.acts > 0 ? state.acting / state.acts : 0; }
  bool fits(std::size_t unit, int slots) const;
  void add(State& state, double seconds, const UnitTimes& times);
  void check_trial(State& state, double seconds, const UnitTimes& times);
  void choose_lanes(std::size_t unit, double seconds, const UnitTimes& times);
  void choose_slots(std::size_t unit, double seconds, const UnitTimes& times);
  void set_lanes(State& state, int lanes, LanesReason reason, double share);

  std::vector<TunedUnit> units_;
  TunerLimits limits_;
  std::vector<State> states_;
  std::vector<std::int64_t> bytes_;  // of an element, by unit
};

}  // namespace karez::data
