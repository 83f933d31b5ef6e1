// Implements Profile.
#include "karez/api/profile/profile.h"

#include <utility>

#include "karez/api/namespace.h"
#include "karez/api/profile/world_profile.h"
#include "karez/api/state/world_state.h"
#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez {

struct Profile::State {
  std::shared_ptr<WorldState> world;  // null after `stop`
  WorldProfile profile;
  report::ProfileData stopped_data;
  report::ProfileData data() const {
    if (!world) return stopped_data;
    profile.recorder->drain();
    return data_of(*world, profile);
  }
};

Profile::Profile(const World& world, const ProfileOptions& options) {
  require(options.steps >= 0, "Profile: steps must be at least 0 (0 records until it is stopped), got ", options.steps);
  require(options.skip >= 0, "Profile: skip must be at least 0, got ", options.skip);
  auto state = std::make_unique<State>();
  state->world = world.mesh().world;
  state->profile = begin_profile(*state->world, {.launches = options.steps, .skip = options.skip});
  state_ = std::move(state);
}
Profile::Profile(Profile&&) noexcept = default;

Profile::~Profile() {
  if (state_ && state_->world) end_profile(*state_->world, state_->profile);
}

void Profile::stop(bool wait) {
  if (!state_->world) return;
  if (wait && !state_->profile.recorder->ended()) state_->world->session.wait_all_launches();
  end_profile(*state_->world, state_->profile);
  state_->stopped_data = data_of(*state_->world, state_->profile);
  state_->profile = {};
  state_->world = nullptr;
}

std::int64_t Profile::launches() const { return times_of(state_->data()).launches; }

std::string Profile::table(ProfileRows rows, std::int64_t max_rows) const {
  require(max_rows >= 1, "Profile: the number of rows must be at least 1, got ", max_rows);
  const auto by = rows == ProfileRows::ops     ? report::ProfileBy::op
                  : rows == ProfileRows::kinds ? report::ProfileBy::kind
                                               : report::ProfileBy::module;
  return profile_table(times_of(state_->data()), by, static_cast<std::size_t>(max_rows));
}

void Profile::save(const std::string& path) const {
  std::string file = path;
  const report::ProfileData data = state_->data();
  if (data.ranks > 1) {
    const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
    const bool has_extension = dot != path.npos && (slash == path.npos || dot > slash + 1);
    file.insert(has_extension ? dot : path.size(), cat(".", data.rank));
  }
  write_file(file, print(trace_of(data)));
}

}  // namespace karez
