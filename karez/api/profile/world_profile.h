// Records and writes profiles of a world.
#pragma once

#include <memory>
#include <string>

#include "karez/report/profile.h"
#include "karez/runtime/profile/event_recorder.h"
#include "karez/runtime/profile/stage_log.h"

namespace karez {

struct WorldState;

// A recording of a world's session and of its data sets.
struct WorldProfile {
  std::shared_ptr<runtime::EventRecorder> recorder;
  std::shared_ptr<runtime::StageLog> stages;
  bool skips = false;  // some launches before the recorded ones, and the acts of stages before these
};
WorldProfile begin_profile(WorldState& world, runtime::RecorderOptions options);
void end_profile(WorldState& world, const WorldProfile& profile);
report::ProfileData data_of(const WorldState& world, const WorldProfile& profile);

// If KAREZ_PROFILE names a folder, records KAREZ_PROFILE_STEPS launches (10) after the first KAREZ_PROFILE_SKIP (2),
// which are usually the first values of parameters and a first step, and writes profile.RANK.json and profile.RANK.txt,
// a trace and a table, into the folder: after the last of these launches, or when the world ends.
void begin_environment_profile(WorldState& world);

void write_file(const std::string& path, const std::string& text);

}  // namespace karez
