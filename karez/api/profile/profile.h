// Profile: records the launches of a running program, and reports their times by op, by module and as a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "karez/api/world.h"

namespace karez {

struct ProfileOptions {
  std::int64_t steps = 0;  // ends after this many launches; 0: when it is stopped
  std::int64_t skip = 0;   // the launches before the first recorded one, for example to warm up
};

// The rows of a table: one for each op at its source line, one for all ops of the same kind, or one for each module.
enum class ProfileRows : std::uint8_t { ops, kinds, modules };

// Records the launches that the program makes from now on: those of compiled functions, and those of expressions
// outside of functions. A profile may be used by one thread at a time; a world may have several profiles. Until
// it is stopped, it keeps the world's state alive.
//
//   Profile profile(world, {.steps = 5});
//   for (int i = 0; i < 10; ++i) step(x, y);
//   profile.stop();
//   std::puts(profile.table().c_str());
//   profile.save("trace.json");
class Profile {
 public:
  explicit Profile(const World& world, const ProfileOptions& options = {});  // an error if the world has ended
  Profile(Profile&&) noexcept;
  ~Profile();  // stops without waiting

  // Ends the profile. Waits for the launches made so far, unless `wait` is false or all its launches have ended. A
  // second call has no effect.
  void stop(bool wait = true);
  std::int64_t launches() const;  // that have been recorded and have ended

  // The functions below may also be called before `stop`; they then report on the launches that have ended.

  // A table of the times of all workers, with at most this many rows. Each moment from the first launch to the end of
  // the last one belongs to a row or to one of the sums below them, so all of them together are the measured time.
  // `CPU` is the part of the time in which the thread of the worker used a core; only longer calls are measured, and
  // other threads of a team are not included. `MiB` are the bytes that the calls read and write according to the plan.
  // `waited` is the time in which the worker had nothing to do before these calls. Collectives run while their worker
  // does something else; that part of their time is `hidden` and not added up.
  std::string table(ProfileRows rows = ProfileRows::ops, std::int64_t max_rows = 40) const;
  // Writes a trace for Perfetto (https://ui.perfetto.dev) or Chrome: launches, calls, acts of data set stages, and the
  // times when the program waited for data, on one clock. With several ranks, each rank writes its own file:
  // "trace.json" becomes "trace.RANK.json", and `karez profile --merge` merges them.
  void save(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez
