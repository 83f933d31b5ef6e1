// Tests of profiles of worlds: which launches they record, the sums of their tables, traces, and the ends of worlds.
#include "karez/api/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/base/test_error.h"
#include "karez/karez.h"
#include "karez/runtime/session_options.h"

namespace karez {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("karez-profile-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

struct Mlp : nn::Module {
  nn::Linear up{*this, "up", 256, 512}, down{*this, "down", 512, 10};
  Tensor operator()(const Tensor& x) { return down(relu(up(x))); }
};

struct Training {
  World world;
  Mlp net;
  optim::Adam adam{net.parameters(), {.lr = 1e-3}};
  Function step;
  HostArray x{TensorType{DType::f32, {64, 256}}}, y{TensorType{DType::i32, {64}}};
  explicit Training(WorldOptions options = {}, const char* mesh = "")
      : world(std::move(options)),
        step(compile(world.mesh(mesh),
                     [this](Tensor x, Tensor y) {
                       Tensor loss = cross_entropy(net(x), y);
                       adam.step(grad(loss, net.parameters()));
                       return loss;
                     },
                     {.name = "train"})) {}
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step(x, y).item();
  }
};

// The milliseconds of the line that contains the text.
double milliseconds(const std::string& table, const std::string& text) {
  const std::size_t at = table.find(text);
  if (at == table.npos) return -1;
  return std::stod(table.substr(table.rfind('\n', at) + 1));
}

TEST(Profile, TheSumsOfATableAreTheMeasuredTime) {
  Training training;
  training.run(3);
  Profile profile(training.world);
  const auto begin = std::chrono::steady_clock::now();
  training.run(50);
  const double measured = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  profile.stop();
  EXPECT_EQ(profile.launches(), 50);
  const std::string table = profile.table();
  double sum = 0;
  for (const char* line : {"sum of the ops", "waiting:", "launch overhead:", "data stall:", "program:"}) {
    const double time = milliseconds(table, line);
    EXPECT_GE(time, 0) << line << "\n" << table;
    sum += time;
  }
  EXPECT_NEAR(sum, measured, 0.05 * measured) << table;
  EXPECT_GT(milliseconds(table, "sum of the ops"), 0.3 * measured) << table;
  double rows = 0;
  std::istringstream lines(table.substr(table.find("of the step")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.find("sum of the ops") == line.npos) rows += std::stod(line);
  EXPECT_NEAR(rows, milliseconds(table, "sum of the ops"), 0.05) << table;
  EXPECT_THAT(table, HasSubstr("onednn.matmul"));
  EXPECT_THAT(table, HasSubstr("profile_test.cc:"));
  const std::string modules = profile.table(ProfileRows::modules);
  EXPECT_NEAR(milliseconds(modules, "sum of the modules"), milliseconds(table, "sum of the ops"), 0.002);
  EXPECT_THAT(modules, HasSubstr("  up\n"));
  EXPECT_THAT(modules, HasSubstr("  down\n"));
}

TEST(Profile, OnlyTheRequestedLaunchesAreRecorded) {
  Training training;
  training.run(1);
  Profile profile(training.world, {.steps = 5, .skip = 2});
  training.run(4);
  EXPECT_EQ(profile.launches(), 2);
  EXPECT_THAT(profile.table(), HasSubstr("2 launches, "));
  training.run(10);
  EXPECT_EQ(profile.launches(), 5);
  profile.stop();
  profile.stop();
  EXPECT_EQ(profile.launches(), 5);
  EXPECT_THAT(profile.table(), HasSubstr("5 launches, "));
}

TEST(Profile, ExpressionsOutsideOfFunctionsAreRecorded) {
  World world;
  Profile profile(world);
  const DeviceMesh mesh = world.mesh();
  const Tensor a(compile(mesh, [](Tensor x) { return x + 1.0F; })(HostArray(TensorType{DType::f32, {4}})).value());
  (a * 3.0F).read();
  profile.stop();
  EXPECT_EQ(profile.launches(), 2);
}

TEST(Profile, TwoProfilesOfAWorldAreIndependent) {
  Training training;
  training.run(1);
  Profile outer(training.world);
  training.run(2);
  {
    Profile inner(training.world, {.steps = 1});
    training.run(2);
    inner.stop();
    EXPECT_EQ(inner.launches(), 1);
  }
  training.run(1);
  outer.stop();
  EXPECT_EQ(outer.launches(), 5);
}

TEST(Profile, AProfileWithoutLaunchesSaysSo) {
  World world;
  Profile profile(world, {.steps = 3});
  profile.stop();
  EXPECT_EQ(profile.launches(), 0);
  EXPECT_EQ(profile.table(), "no launch was recorded\n");
  EXPECT_EQ(profile.table(ProfileRows::modules), "no launch was recorded\n");
}

TEST(Profile, AProfileOfAWorldThatEndsKeepsItsLaunches) {
  std::optional<Profile> profile;
  {
    Training training;
    training.run(1);
    profile.emplace(training.world);
    training.run(2);
    training.world.end();
    EXPECT_EQ(profile->launches(), 2);
    EXPECT_NE(base::error_of([&] { Profile late(training.world); }), "no error");
  }
  profile->stop();
  EXPECT_EQ(profile->launches(), 2);
  EXPECT_THAT(profile->table(), HasSubstr("2 launches, "));
}

TEST(Profile, AResetKeepsTheLaunches) {
  Training training;
  training.run(1);
  Profile profile(training.world);
  training.run(2);
  training.world.reset();
  training.run(1);  // computes the first values again
  profile.stop();
  EXPECT_EQ(profile.launches(), 4);
}

TEST(Profile, ChecksOfNanDoNotHideCalls) {
  Training training({.check_nan = true});
  training.run(1);
  Profile profile(training.world);
  training.run(2);
  profile.stop();
  EXPECT_THAT(profile.table(), HasSubstr("onednn.matmul"));
}

TEST(Profile, ALaunchThatFailsIsRecorded) {
  World world({.check_nan = true});
  auto logarithm = compile(world.mesh(), [](Tensor x) { return log(x); });
  logarithm(HostArray::of<float>({1}, {1})).wait();
  Profile profile(world);
  EXPECT_THROW(logarithm(HostArray::of<float>({1}, {-1})).wait(), Error);
  logarithm(HostArray::of<float>({1}, {1})).wait();
  profile.stop();
  EXPECT_EQ(profile.launches(), 2);
  Folder folder;
  profile.save(folder.path / "trace.json");
  EXPECT_THAT(text_of(folder.path / "trace.json"), HasSubstr("\"failed\":true"));
}

TEST(Profile, LostEventsAreReported) {
  Training training({.session = [](runtime::SessionOptions& options) { options.events = 16; }});
  training.run(1);
  Profile profile(training.world);
  training.run(30);
  profile.stop();
  EXPECT_TRUE(
      std::regex_search(profile.table(), std::regex("  [0-9]+ events were lost, so times of calls are missing")))
      << profile.table();
}

TEST(Profile, InvalidOptionsAreErrors) {
  World world;
  EXPECT_EQ(base::error_of([&] { Profile(world, {.steps = -1}); }),
            "Profile: steps must be at least 0 (0 records until it is stopped), got -1");
  EXPECT_EQ(base::error_of([&] { Profile(world, {.skip = -1}); }), "Profile: skip must be at least 0, got -1");
  Profile profile(world);
  EXPECT_EQ(base::error_of([&] { profile.table(ProfileRows::ops, 0); }),
            "Profile: the number of rows must be at least 1, got 0");
  EXPECT_THAT(base::error_of([&] { profile.save("/no/where/trace.json"); }),
              HasSubstr("cannot write /no/where/trace.json: "));
}

TEST(Profile, StallsOfADataSetAreInTheTableAndTheTrace) {
  using namespace std::chrono_literals;
  World world;
  auto step = compile(world.mesh(), [](Tensor x) { return x + 1.0F; });
  DataIterator batches = world.iterate(data::range(12).map(
      [](const data::Element&) {
        std::this_thread::sleep_for(5ms);
        return data::element(HostArray(TensorType{DType::f32, {4}}));
      },
      {.name = "decode"}));
  Profile profile(world);
  while (auto batch = batches.next()) step(data::array_of(*batch)).wait();
  profile.stop();
  const std::string table = profile.table();
  EXPECT_GT(milliseconds(table, "data stall:"), 20) << table;
  Folder folder;
  profile.save(folder.path / "trace.json");
  const std::string trace = text_of(folder.path / "trace.json");
  EXPECT_THAT(trace, HasSubstr("\"name\":\"waits for data\""));
  EXPECT_THAT(trace, HasSubstr("map(decode)"));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"data thread 1\""));
}

TEST(Profile, EachRankWritesItsOwnFile) {
  Folder folder;
  on_ranks(2, [&](const Ranks& ranks) {
    Training training({.ranks = ranks}, "data=2");
    training.run(1);
    Profile profile(training.world, {.steps = 2});
    training.run(3);
    profile.stop();
    EXPECT_EQ(profile.launches(), 2);
    EXPECT_THAT(profile.table(), HasSubstr("all_reduce")) << ranks.rank;
    profile.save(folder.path / "trace.json");
  });
  EXPECT_THAT(text_of(folder.path / "trace.0.json"), HasSubstr("rank 0 of 2"));
  EXPECT_THAT(text_of(folder.path / "trace.1.json"), HasSubstr("rank 1 of 2"));
}

struct Variable {
  const char* name;
  Variable(const char* name, const std::string& value) : name(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name); }
};

TEST(Profile, TheEnvironmentRequestsAProfileOfEachWorld) {
  Folder folder;
  const Variable variable("KAREZ_PROFILE", folder.path / "out"), steps("KAREZ_PROFILE_STEPS", "3");
  {
    Training training;
    training.run(3);  // with the launch that computes the first values, two are recorded when the world ends
  }
  {
    Training training;
    training.run(6);
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path / "out"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  ASSERT_EQ(names.size(), 4u);
  std::string first, second;
  for (const std::string& name : names)
    if (name.ends_with(".txt")) (first.empty() ? first : second) = text_of(folder.path / "out" / name);
  EXPECT_THAT(first + second, HasSubstr("2 launches, "));
  EXPECT_THAT(first + second, HasSubstr("3 launches, "));
}

TEST(Profile, AWrongNumberInTheEnvironmentIsAnError) {
  Folder folder;
  const Variable variable("KAREZ_PROFILE", folder.path);
  for (const char* number : {"0", "-3", "few", "3x"}) {
    const Variable steps("KAREZ_PROFILE_STEPS", number);
    EXPECT_EQ(base::error_of([] { World world; }),
              base::cat("KAREZ_PROFILE_STEPS must be an integer of at least 1, got '", number, "'"));
  }
}

}  // namespace
}  // namespace karez
