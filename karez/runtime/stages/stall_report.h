// Texts about the time for which devices waited for data, and the stage of a data set that is to blame.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "karez/data/stages/stage_tree.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// The times that a stage has spent in its activities, in any unit.
using ActivityTimes = std::array<double, plan::stage_activities>;

struct LimitingStage {
  plan::StageId stage;
  double acting = 0;            // the part of the time in which it acted, from 0 to 1
  bool waits_for_core = false;  // it could have acted for longer than it acted
};
// The stage that limits the others: the one closest to the reader that acts for at least as long as it waits for its
// input. `times`: by stage.
LimitingStage limiting_stage(const plan::StageGraph& graph, const std::vector<ActivityTimes>& times);

// "limited by map(decode), which acted 98 % of the time, CPU; give it parallel=2". `cpu`: the part of the time of the
// acts in which they computed, if it is known. `own_cores`: whether data threads have cores that no kernel uses.
std::string limit_text(const data::StageTree& tree, const LimitingStage& limit, std::optional<double> cpu,
                       bool own_cores);

// "the devices waited for data for 0.300 s of 12.100 s (2.5 %)".
std::string stall_text(double stall_seconds, double seconds);

}  // namespace karez::runtime
