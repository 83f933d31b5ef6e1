// Tests that options of worlds and functions reach the session and the compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/progress.h"
#include "karez/api/state/program_compilation.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/runtime/session_options.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

SessionOptions session_of(WorldOptions options) {
  SessionOptions out;
  options.session = [&](SessionOptions& session) { out = session; };
  World world(std::move(options));
  return out;
}

TEST(OptionEffects, OptionsOfTheWorldReachTheSession) {
  bool waited = false;
  const SessionOptions set = session_of({.devices = 2,
                                         .workers = 2,
                                         .in_flight = 7,
                                         .check_nan = true,
                                         .while_waiting = [&] { waited = true; },
                                         .poison = true});
  EXPECT_EQ(set.workers, 2);
  EXPECT_TRUE(set.poison);
  EXPECT_EQ(set.in_flight, 7);
  EXPECT_TRUE(set.check_nan);
  EXPECT_EQ(set.peers, nullptr);
  EXPECT_FALSE(set.make_control);
  set.while_waiting();
  EXPECT_TRUE(waited);
  const SessionOptions defaults = session_of({});
  EXPECT_EQ(defaults.workers, 0);
  EXPECT_EQ(defaults.poison, runtime::poison_by_default);
  EXPECT_EQ(defaults.in_flight, 4);
  EXPECT_FALSE(defaults.check_nan);
  EXPECT_FALSE(defaults.while_waiting);
  bool ended = false;
  {
    World ending({.while_ending = [&](const std::function<void()>& end) { end(), ended = true; }});
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(defaults.spin_microseconds, SessionOptions().spin_microseconds);
  EXPECT_FALSE(session_of({.poison = false}).poison);
}

TEST(OptionEffects, OptionsOfTheWorldReachTheCompiler) {
  Graph two_devices;
  two_devices.meshes = {Mesh::of({{"d", 2}})};
  two_devices.meshes[0].devices = {{0, 0}, {0, 1}};
  const auto options_of = [&](const WorldOptions& options, const Graph& graph) {
    const World world(options);
    const WorldState& state = *world.mesh().world;
    EXPECT_EQ(state.compile_options(graph).memory, options.memory);
    EXPECT_EQ(state.compile_options(graph).check_nan, options.check_nan);
    return std::pair(state.compile_options(graph), state.common_settings.cores);
  };
  const auto [set, cores] =
      options_of({.devices = 2, .workers = 1, .team = 3, .memory = 1 << 20, .check_nan = true}, two_devices);
  EXPECT_EQ(set.rank, 0);
  EXPECT_EQ(set.world, 1);
  EXPECT_EQ(set.workers, 1);
  EXPECT_EQ(set.team, 3);
  EXPECT_EQ(options_of({.devices = 2}, two_devices).first.workers, std::min(2, cores));
  EXPECT_EQ(options_of({.devices = 2}, two_devices).first.team, std::max(1, cores / std::min(2, cores)));
  EXPECT_EQ(options_of({.devices = 2, .workers = 5}, two_devices).first.workers, std::min(2, cores));
  EXPECT_EQ(options_of({.devices = 2}, Graph()).first.workers, 1) << "a program of one device needs one worker";
  EXPECT_EQ(options_of({.devices = 2}, Graph()).first.team, cores);
  EXPECT_EQ(options_of({.data_cores = 1}, Graph()).first.team, std::max(1, cores - 1));
  EXPECT_EQ(options_of({.data_cores = 1000}, Graph()).first.team, 1);
  World world;
  EXPECT_EQ(world.held_bytes(), 0);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.ranks(), 1);
}

TEST(OptionEffects, OptionsOfFunctionsReachTheCompiler) {
  World world;
  const auto compilation = [&](const FunctionOptions& options) {
    return make_compilation(*world.mesh().world, Graph(), options, 12, {"block*"}).options;
  };
  const CompileOptions set = compilation({.amp = "f16",
                                          .microbatches = 3,
                                          .check_nan = true,
                                          .reassociate = true,
                                          .off = {"fuse", "bucket"},
                                          .keep_text = true});
  EXPECT_EQ(set.amp, DType::f16);
  EXPECT_EQ(set.microbatches, 3);
  EXPECT_EQ(set.batch, 12);
  EXPECT_TRUE(set.check_nan);
  EXPECT_TRUE(set.reassociate);
  EXPECT_EQ(set.off, (std::vector<std::string>{"fuse", "bucket"}));
  EXPECT_TRUE(set.keep_text);
  EXPECT_EQ(set.remat, std::vector<std::string>{"block*"});
  const CompileOptions defaults = compilation({});
  EXPECT_FALSE(defaults.amp.has_value());
  EXPECT_EQ(compilation({.amp = "bf16"}).amp, DType::bf16);
  EXPECT_EQ(defaults.microbatches, 1);
  EXPECT_FALSE(defaults.check_nan);
  EXPECT_FALSE(defaults.reassociate);
  EXPECT_TRUE(defaults.off.empty());
  EXPECT_FALSE(defaults.keep_text);
}

TEST(OptionEffects, ThePlannerNamesItsCostTable) {
  const auto origin = [](const WorldOptions& options) { return World(options).mesh().world->tables.costs.origin; };
  const std::string file = ::testing::TempDir() + "karez_costs.txt";
  std::ofstream(file) << CostTable().print();
  EXPECT_EQ(origin({.costs = CostTable()}), "those of WorldOptions::costs");
  CostTable named;
  named.origin = "mine";
  EXPECT_EQ(origin({.costs = named}), "mine");
  EXPECT_EQ(origin({.cost_file = file}), cat("those of ", file));
  EXPECT_THAT(origin({.cost_file = "default"}), HasSubstr(std::string(sbp::default_origin)));
  ::setenv("KAREZ_COSTS", file.c_str(), 1);
  EXPECT_EQ(origin({}), cat("those of ", file));
  EXPECT_THAT(origin({.cost_file = "default"}), HasSubstr(std::string(sbp::default_origin)))
      << "the option must take precedence over the environment";
  ::unsetenv("KAREZ_COSTS");
}

TEST(OptionEffects, TheInputCheckComesFromTheEnvironmentUnlessItIsSet) {
  const auto check = [](const WorldOptions& options) { return World(options).mesh().world->options.check_inputs; };
  EXPECT_EQ(check({}), InputCheck::sampled);
  for (const auto& [word, expected] : {std::pair("off", InputCheck::off), std::pair("full", InputCheck::full),
                                       std::pair("sampled", InputCheck::sampled)}) {
    ::setenv("KAREZ_CHECK_INPUTS", word, 1);
    EXPECT_EQ(check({}), expected) << word;
    EXPECT_EQ(check({.check_inputs = InputCheck::full}), InputCheck::full) << word;
  }
  ::setenv("KAREZ_CHECK_INPUTS", "some", 1);
  EXPECT_EQ(error_of([&] { check({}); }), "KAREZ_CHECK_INPUTS must be off, sampled or full, got 'some'");
  ::unsetenv("KAREZ_CHECK_INPUTS");
}

// On a terminal, a shorter line must overwrite all of a longer one, and finish ends the line only once.
TEST(ProgressLines, AShorterLineOverwritesALongerOne) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Progress progress(2, 1, file, true);
  progress.finish();
  progress.show(2, 1, 1000);
  const std::string longer(text, size);
  progress.show(2, 1, 1);
  progress.finish();
  progress.finish();
  std::fflush(file);
  EXPECT_EQ(longer, "\rstep 2/2  epoch 1  loss 1000.0000  0 samples/s  ETA 0:00");
  EXPECT_EQ(std::string(text, size), longer + "\rstep 2/2  epoch 1  loss 1.0000  0 samples/s  ETA 0:00   \n");
  std::fclose(file);
  std::free(text);
}

}  // namespace
}  // namespace karez
