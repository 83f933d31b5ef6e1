// Measures a stream for its tuner and sets the numbers that the tuner chooses. Without a clock: the driver of the
// machine passes the time.
#pragma once

#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/tuning/tuner.h"

namespace karez::data {

// All times are in seconds.
class StreamTuner {
 public:
  static constexpr double period = 0.05;

  // Sets the first numbers. The machine must exist as long as the tuner.
  StreamTuner(StageMachine& machine, const TunerLimits& limits);

  // Call after each change of the machine. `reader_waits`: for an element.
  void note(bool reader_waits, double now);
  // Call when an act of a stage has ended. `computing`: the time in which it used a core, or waited for one; negative:
  // it was not measured, and is assumed to be the usual part.
  void add_act(plan::StageId stage, double seconds, double computing);
  // Whether the cores that acts of this stage use must be known.
  bool measures(plan::StageId stage) const { return unit_of_[stage] >= 0 && units()[unit(stage)].most_lanes > 1; }
  // Chooses numbers if a period has ended. Returns whether one has changed, so that further stages may be ready.
  bool step(double now);

  // Whether a stream with other actors would be faster, because the functions of some stages take less time than the
  // messages to them, or because functions that an actor calls now should have lanes. The stream has them if it is made
  // again.
  bool wants_other_actors() const { return wants_other_actors_; }

  void set_cores(int cores) { tuner_.set_cores(cores); }

  const Tuner& tuner() const { return tuner_; }
  // A line for each unit: "actor 2: lanes 3 ...".
  std::string text() const;

 private:
  struct Register {
    plan::StageId stage;
    bool blocked = false, awaited = false;
  };
  struct Unit {
    bool full = false;
    std::vector<Register> registers;
  };
  std::size_t unit(plan::StageId stage) const { return static_cast<std::size_t>(unit_of_[stage]); }
  const std::vector<TunedUnit>& units() const { return tuner_.units(); }
  void set_numbers();
  void clear_times();
  void choose_actors(double now);
  void change(TunedNumbers& numbers, bool fused, double now);

  // An actor that calls functions with automatic lanes.
  struct FusedActor {
    plan::StageId stage;
    double acting = 0;                     // seconds, recently
    std::vector<std::int64_t> calls = {};  // of its functions, when they were read last
    std::vector<double> recent_calls = {};
  };

  StageMachine& machine_;
  const double short_act_;
  Tuner tuner_;
  std::vector<FusedActor> fused_;
  bool wants_other_actors_ = false;
  double made_ = -1;
  ById<plan::StageId, int> unit_of_;  // -1: none
  std::vector<Unit> units_;
  std::vector<UnitTimes> times_;  // of this period
  std::vector<double> measured_;  // the part of UnitTimes::acting of which the computing time is known
  double since_ = -1, begin_ = -1;
};

}  // namespace karez::data
