// Tests of World::save: the contents of checkpoints, failed saves, and saves while other threads train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "karez/api/testing/test_checkpoint.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(Checkpoint, ACheckpointContainsTheResultsOfEarlierCalls) {
  World world({.in_flight = 8});
  Parameter w("w", {DType::f32, {1000}}, constant_init(0));
  optim::SGD sgd({w}, {.lr = 1});
  auto step = compile(world.mesh(), [&] { sgd.step({full({1000}, -1)}); });
  for (int i = 0; i < 5; ++i) step();
  world.save(path("c"));
  for (int i = 0; i < 3; ++i) step();
  World other_world;
  auto read = compile(other_world.mesh(), [&] { return w * 1; });
  other_world.load(path("c"));
  EXPECT_THAT(list(read().value().read()), Each(5.f)) << "the checkpoint must not include later calls";
}

TEST_F(Checkpoint, LoadedValuesThatNoVariableHasTakenYetAreSavedToo) {
  World world;
  CheckpointTrainer trainer(world);
  trainer.losses(2);
  world.save(path("a"));
  World second;
  second.load(path("a"));
  second.save(path("b"));
  CheckpointTrainer second_trainer(second);
  auto read_bias = compile(second.mesh(), [&] { return second_trainer.net.fc1.bias * 1; });
  read_bias().wait();
  second.save(path("c"));  // fc1.bias is a variable now
  for (const char* name : {"a", "b", "c"}) {
    World third;
    CheckpointTrainer third_trainer(third);
    third.load(path(name));
    third_trainer.losses(1, 2);
    World reference;
    CheckpointTrainer reference_trainer(reference);
    reference.load(path("a"));
    reference_trainer.losses(1, 2);
    EXPECT_EQ(all_bytes(third), all_bytes(reference)) << name;
  }
}

TEST_F(Checkpoint, AFailedSaveKeepsTheOldCheckpoint) {
  World world;
  CheckpointTrainer trainer(world);
  trainer.losses(1);
  world.save(path("c"));
  EXPECT_THAT(error_of([&] { world.save(path("no/c")); }), HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of([&] { world.save(path("c"), {.position = -1}); }),
              HasSubstr("the data position must be at least 0, got -1"));
  EXPECT_THAT(error_of([&] {
                world.save(path("c"), {.notes = {{"karez.x", ""}}});
              }),
              HasSubstr("a note is named 'karez.x'"));
  EXPECT_THAT(error_of([&] { world.save(path("c"), {.notes = {{"x", "\xff"}}}); }), HasSubstr("not UTF-8"));
  EXPECT_EQ(count_files(), 1u);
  trainer.losses(1);
  EXPECT_EQ(world.load(path("c")).position, 0);
}

TEST_F(Checkpoint, OtherThreadsCanTrainDuringASave) {
  World world({.in_flight = 2});
  CheckpointTrainer trainer(world), second(world, "", "second");
  trainer.losses(1);
  second.losses(1);
  std::thread thread([&] { second.losses(60, 1); });
  for (int i = 0; i < 20; ++i) world.save(path("c"));
  thread.join();
  World other_world;
  CheckpointTrainer loaded_first(other_world), loaded_second(other_world, "", "second");
  other_world.load(path("c"));
  loaded_first.losses(1, 1);
  loaded_second.losses(1);
  EXPECT_THAT(other_world.waiting(), IsEmpty());
}

}  // namespace
}  // namespace karez
