// Tests of the settings that a world takes from the environment.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "karez/api/world.h"
#include "karez/base/error.h"
#include "karez/runtime/flight_record.h"
#include "karez/runtime/session_options.h"

namespace karez {
namespace {
namespace fs = std::filesystem;

TEST(WorldSetup, FlightRecordsAreWrittenToTheFolderThatTheEnvironmentNames) {
  std::string folder = (fs::temp_directory_path() / "karez-flight-XXXXXX").string();
  base::require(::mkdtemp(folder.data()) != nullptr, "cannot make ", folder);
  runtime::SessionOptions session;
  const auto make_world = [&] {
    World world({.session = [&](runtime::SessionOptions& options) { session = options; }});
  };
  ::setenv("KAREZ_FLIGHT", folder.c_str(), 1);
  make_world();
  ::setenv("KAREZ_FLIGHT", "", 1);
  ASSERT_TRUE(session.write_flight_record);
  runtime::FlightRecord record;
  record.rank = 3;
  session.write_flight_record(record);
  EXPECT_TRUE(fs::exists(fs::path(folder) / "rank3.flight"));
  fs::remove_all(folder);

  make_world();
  EXPECT_FALSE(session.write_flight_record) << "an empty name means no folder";
  ::unsetenv("KAREZ_FLIGHT");
}

}  // namespace
}  // namespace karez
