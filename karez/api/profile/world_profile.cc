// Connects profiles with the session and the data threads of a world.
#include "karez/api/profile/world_profile.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez {
namespace {

constexpr std::size_t table_rows = 60;

std::int64_t number_of(const char* variable, std::int64_t least, std::int64_t default_value) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return default_value;
  const std::string_view text = value;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= least, variable,
          " must be an integer of at least ", least, ", got '", text, "'");
  return number;
}

}  // namespace

WorldProfile begin_profile(WorldState& world, RecorderOptions options) {
  WorldProfile out;
  out.stages = std::make_shared<StageLog>();
  out.skips = options.skip > 0;
  options.on_end = [threads = world.data_threads, stages = out.stages, on_end = std::move(options.on_end)] {
    threads->remove_log(stages);
    if (on_end) on_end();
  };
  out.recorder = world.session.record_events(options);
  world.data_threads->add_log(out.stages);
  if (out.recorder->ended()) world.data_threads->remove_log(out.stages);
  return out;
}

void end_profile(WorldState& world, const WorldProfile& profile) {
  world.session.end_recording(profile.recorder);
  world.data_threads->remove_log(profile.stages);
}

report::ProfileData data_of(const WorldState& world, const WorldProfile& profile) {
  report::ProfileData out;
  out.rank = world.ranks.rank(), out.ranks = world.ranks.ranks();
  out.origin = world.session.origin();
  out.recording = world.session.recording(*profile.recorder);
  out.lost_stages = profile.stages->lost();
  const std::int64_t begin = !profile.skips                   ? INT64_MIN
                             : out.recording.launches.empty() ? INT64_MAX
                                                              : out.recording.launches[0].made;
  for (const StageSpan& span : profile.stages->spans())
    if (world.session.to_ns(span.end) >= begin)
      out.stages.push_back({*span.stage, span.thread, span.thread_id, world.session.to_ns(span.begin),
                            world.session.to_ns(span.end), span.stall, span.elements, span.bytes});
  return out;
}

void write_file(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  require(ErrorKind::data, file.good(), "cannot write ", path, ": ", std::strerror(errno));
}

void begin_environment_profile(WorldState& world) {
  const char* variable = std::getenv("KAREZ_PROFILE");
  if (variable == nullptr || *variable == '\0') return;
  static std::atomic<int> worlds{0};
  const int number = ++worlds;
  const std::string base =
      cat(variable, "/profile.", world.ranks.rank(), number == 1 ? std::string() : cat(".", number));
  const std::int64_t steps = number_of("KAREZ_PROFILE_STEPS", 1, 10), skip = number_of("KAREZ_PROFILE_SKIP", 0, 2);
  std::error_code error;
  std::filesystem::create_directories(variable, error);
  require(ErrorKind::data, !error, "KAREZ_PROFILE: cannot create the folder ", variable, ": ", error.message());
  const auto profile = std::make_shared<WorldProfile>();
  *profile = begin_profile(
      world, {.launches = steps, .skip = skip, .on_end = [&world, base, weak = std::weak_ptr(profile)] {
                const auto recorded = weak.lock();
                if (!recorded) return;
                const report::ProfileData data = data_of(world, *recorded);
                write_file(base + ".json", print(trace_of(data)));
                write_file(base + ".txt", profile_table(times_of(data), report::ProfileBy::op, table_rows));
              }});
  world.environment_profile = profile;
}

}  // namespace karez
