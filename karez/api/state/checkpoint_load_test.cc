// Tests of World::load: on any mesh, before and after variables exist, after failures, and with files that do not
// match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "karez/api/testing/test_checkpoint.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"
#include "karez/data/weight_writer.h"

namespace karez {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(Checkpoint, EveryVariableIsLoadedBitForBitOnAnyMesh) {
  World world({.devices = 4});
  CheckpointTrainer trainer(world, "data=2,model=2");
  trainer.losses(3);
  world.save(path("c"), {.position = 3, .notes = {{"epoch", "7"}}});
  const auto saved = all_bytes(world);
  EXPECT_EQ(saved.size(), 4u * 3 + 2)
      << "expected weights, two moments of each weight, Adam's step and the random counter";
  for (const char* mesh : {"", "data=2,model=2", "model=3", "data=4"}) {
    World new_world({.devices = 4, .seed = 99}), used_world({.devices = 4, .seed = 99});
    CheckpointTrainer new_trainer(new_world, mesh), used_trainer(used_world, mesh);
    used_trainer.losses(1);  // creates variables with other values
    const CheckpointNotes notes = new_world.load(path("c"));
    EXPECT_EQ(notes.position, 3);
    EXPECT_EQ(notes.notes, (std::map<std::string, std::string>{{"epoch", "7"}}));
    EXPECT_EQ(new_world.waiting().size(), saved.size());
    used_world.load(path("c"));
    EXPECT_EQ(all_bytes(used_world), saved) << mesh;
    const auto expected = new_trainer.losses(1, 3);  // creates variables with the loaded values
    EXPECT_THAT(new_world.waiting(), IsEmpty());
    EXPECT_EQ(expected, used_trainer.losses(1, 3)) << mesh;
    EXPECT_EQ(all_bytes(new_world), all_bytes(used_world)) << mesh;
  }
}

TEST_F(Checkpoint, ACheckpointOfADifferentModelIsRejectedAndChangesNothing) {
  World world;
  CheckpointTrainer trainer(world);
  trainer.losses(2);
  const auto old_bytes = all_bytes(world);
  const auto load_error = [&](const std::string& file, const LoadOptions& options = {}) {
    const std::string error = error_of([&] { world.load(file, options); });
    EXPECT_EQ(all_bytes(world), old_bytes) << error;
    EXPECT_THAT(world.waiting(), IsEmpty()) << error;
    return error;
  };
  const auto weights = trainer.net.parameters();
  const std::vector<FileTensor> file_tensors = {
      {"fc1.weight", {8, 6}}, {"fc1.bias", {8}}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}}};
  auto write_changed = [&](std::size_t i, FileTensor tensor) {
    auto out = file_tensors;
    out[i] = std::move(tensor);
    return write_file("m", out);
  };
  EXPECT_THAT(load_error(write_file("m", file_tensors)),
              AllOf(HasSubstr("m: the file has no tensor for adam.m.fc1.bias, adam.m.fc1.weight, "),
                    HasSubstr(" and 2 more. ")));
  EXPECT_THAT(load_error(write_changed(2, {"fc3.weight", {4, 8}}), {.parameters = weights}),
              HasSubstr("m: the file has no tensor for fc2.weight. Among the tensors that no parameter takes, "
                        "there is 1: fc3.weight. A WeightRule maps names"));
  EXPECT_THAT(load_error(write_changed(2, {"fc3.weight", {4, 8}}), {.parameters = weights, .missing = true}),
              HasSubstr("m: no parameter is named fc3.weight. "));
  EXPECT_THAT(load_error(write_changed(0, {"fc1.weight", {6, 8}}), {.parameters = weights}),
              HasSubstr("m: tensor \"fc1.weight\" is F32[6, 8]; parameter 'fc1.weight' is f32[8, 6]; a rule with "
                        ".transposed exchanges the dimensions"));
  EXPECT_THAT(load_error(write_changed(1, {"fc1.bias", {9}}), {.parameters = weights}),
              HasSubstr("m: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  world.save(path("c"));
  std::string bytes;
  {
    std::ifstream in(path("c"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto changed_bytes = bytes;
  changed_bytes.replace(changed_bytes.find("\"I64\",\"shape\":[]"), 16, "\"F64\",\"shape\":[]");
  std::ofstream(path("d"), std::ios::binary) << changed_bytes;
  EXPECT_THAT(load_error(path("d")), HasSubstr("d: the header does not match its checksum"));
  for (const char* note : {"karez.header", "karez.checksums"})
    changed_bytes.replace(changed_bytes.find(note), 5, "other");  // as in a file without these notes
  std::ofstream(path("d"), std::ios::binary) << changed_bytes;
  EXPECT_THAT(
      load_error(path("d")),
      HasSubstr(
          "d: tensor \"adam.step\" is F64[]; parameter 'adam.step' is i64[]; only lossless conversions are made"));
  auto damaged_bytes = bytes;
  damaged_bytes.back() = static_cast<char>(damaged_bytes.back() ^ 4);
  std::ofstream(path("d"), std::ios::binary) << damaged_bytes;
  EXPECT_THAT(load_error(path("d")), HasSubstr("do not match their checksum: the file is damaged"));
  fs::resize_file(path("d"), bytes.size() - 1);
  EXPECT_THAT(load_error(path("d")), HasSubstr("d: tensor "));
  EXPECT_THAT(load_error(path("none")), HasSubstr("cannot read "));
  const auto rule = [&](const WeightRule& weight_rule) {
    return load_error(write_file("m", file_tensors), {.parameters = weights, .rules = {weight_rule}});
  };
  EXPECT_THAT(rule({"fc9.*", "fc1.*"}),
              HasSubstr("m: rule {\"fc9.*\", \"fc1.*\"} matches no tensor of the file; there are 4: fc"));
  EXPECT_THAT(rule({"fc1*", "fc1*"}), HasSubstr("matches no tensor of the file")) << "a star must not match a dot";
  EXPECT_THAT(rule({"fc*.*", "fc1.*"}),
              HasSubstr("m: rule {\"fc*.*\", \"fc1.*\"} has 2 stars in `file`, but 1 in `name`"));
  EXPECT_THAT(rule({"fc2.*", "fc1.*"}), HasSubstr("are both named 'fc1."));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .part = 0, .parts = 2}),
              HasSubstr("tensor \"fc2.bias\" is divided into 2 parts, but rules use only 1"));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .part = 2, .parts = 2}),
              HasSubstr("part 2 of 2 does not exist"));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .transposed = true}),
              HasSubstr("m: tensor \"fc2.bias\" F32[4] must have two dimensions to be transposed"));
}

TEST_F(Checkpoint, TheWeightsOfOneModelCanBeLoadedBeforeOrAfterTheirVariablesExist) {
  const std::string file = write_file("m", {{"fc1.weight", {8, 6}, 100},
                                            {"fc1.bias", {8}, 200},
                                            {"fc2.weight", {4, 8}, 300},
                                            {"fc2.bias", {4}, 400},
                                            {"more", {2}}});
  World world({.devices = 2});
  CheckpointTrainer existing(world, "data=2"), uncreated(world, "data=2");
  existing.losses(1);
  const auto moments = bytes_of(world.read("adam.m.fc1.bias"));
  for (CheckpointTrainer* trainer : {&existing, &uncreated}) {
    EXPECT_THAT(error_of([&] { world.load(file, {.parameters = trainer->net.parameters()}); }),
                HasSubstr("no parameter is named more. "));
    world.load(file, {.parameters = trainer->net.parameters(), .extra = true});
  }
  EXPECT_EQ(bytes_of(world.read("adam.m.fc1.bias")), moments);
  EXPECT_THAT(list(world.read(existing.net.fc2.bias)), ElementsAre(400, 401, 402, 403));
  EXPECT_THAT(world.waiting(), ElementsAre("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"));
  auto read_bias = compile(world.mesh("data=2"), [&] { return uncreated.net.fc2.bias * 1; });
  EXPECT_THAT(list(read_bias().value().read()), ElementsAre(400, 401, 402, 403));
  EXPECT_EQ(world.waiting().size(), 3u);
  uncreated.losses(1);
  EXPECT_THAT(world.waiting(), IsEmpty());
  world.load(write_file("n", {{"fc2.bias", {4}, 7}}), {.parameters = uncreated.net.parameters(), .missing = true});
  EXPECT_THAT(list(world.read(uncreated.net.fc2.bias)), ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(list(world.read(existing.net.fc2.bias)), ElementsAre(400, 401, 402, 403))
      << "another model with the same names must not change";
}

TEST_F(Checkpoint, AVariableThatACompleteCheckpointLacksIsAnErrorWhenItIsCreated) {
  World world({.seed = 5});
  CheckpointNet net;
  auto f = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.train = false});
  const std::vector<FileTensor> three_tensors = {{"fc1.weight", {8, 6}}, {"fc1.bias", {8}}, {"fc2.biases", {4}}};
  const std::string file = write_file("m", three_tensors);
  world.load(file);
  EXPECT_EQ(error_of([&] {
              f(sine_values({2, 6}, 0));
            }),
            cat("variable 'fc2.weight' is used for the first time, but ", file,
                ", which was loaded for all variables, has no value for it. Among the values without a variable, there "
                "are 3: "
                "fc1.weight, fc1.bias, fc2.biases. load(path, "
                "{.parameters = net.state()}) loads only a model's weights; with {.missing = true} missing parameters "
                "begin with their initial values"));
  EXPECT_EQ(world.waiting().size(), 3u) << "no variable must be created";
  EXPECT_THAT(world.variables(), IsEmpty());
  auto wrong_tensors = three_tensors;
  wrong_tensors[1].shape = {9};
  world.load(write_file("n", wrong_tensors), {.missing = true});
  EXPECT_THAT(error_of([&] {
                f(sine_values({2, 6}, 0));
              }),
              HasSubstr("n: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  world.load(file, {.missing = true});
  f(sine_values({2, 6}, 0)).wait();
  World other_world({.seed = 5});
  other_world.seed(5);
  CheckpointNet other_net;
  compile(other_world.mesh(), [&](Tensor x) { return other_net(x); }, {.train = false})(sine_values({2, 6}, 0)).wait();
  EXPECT_EQ(bytes_of(world.read("fc2.bias")), bytes_of(other_world.read("fc2.bias")))
      << "a missing parameter must have its initial value";
  EXPECT_THAT(list(world.read("fc1.bias")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(world.waiting(), ElementsAre("fc2.biases"));
  world.reset();
  EXPECT_THAT(world.waiting(), IsEmpty());
}

TEST_F(Checkpoint, AMismatchWithKnownParametersIsReportedByTheLoad) {
  World world;
  CheckpointNet net;
  const LoadOptions known_options{.known = net.parameters()};
  std::vector<FileTensor> file = {
      {"fc1.weight", {8, 6}},        {"fc1.bias", {8}}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}},
      {"adam.m.fc1.weight", {8, 6}}, {"adam.step", {}}, {"other", {3}}};
  const auto error_of_load = [&](const LoadOptions& options) {
    return error_of([&] { world.load(write_file("m", file), options); });
  };
  EXPECT_EQ(error_of_load(known_options), "no error")
      << "other tensors must be allowed, because they may belong to an optimiser that is created later";
  file[1].shape = {9};
  EXPECT_THAT(error_of_load(known_options),
              HasSubstr("m: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  file[1].shape = {8};
  file[2].name = "fc3.weight";
  EXPECT_THAT(error_of_load(known_options),
              HasSubstr("m: the file has no tensor for fc2.weight, but has a tensor fc3.weight of the same shape, for "
                        "which there is no parameter. A WeightRule maps names; "
                        "with {.missing = true} missing parameters begin with their initial values"));
  EXPECT_EQ(error_of_load({.missing = true, .known = net.parameters()}), "no error");
  EXPECT_EQ(error_of_load({.rules = {{"fc3.*", "fc2.*"}}, .known = net.parameters()}), "no error");
  file.erase(file.begin() + 2);
  EXPECT_EQ(error_of_load(known_options), "no error") << "a parameter that no function uses must not need a value";
  for (const char* name : {"rng", "amp.scale"}) {
    file[2].name = name;  // instead of fc2.bias, with its shape
    EXPECT_EQ(error_of_load(known_options), "no error")
        << "built-in variables must not be taken for misnamed parameters";
  }
}

// A source whose reads fail. The error is not of the kind `data`, after which the world would remain usable.
struct BrokenSource : Source {
  TensorType type() const override { return {DType::f32, {2}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef&) const override {
    fail(ErrorKind::peer, "the link broke");
  }
};

TEST_F(Checkpoint, LoadingACheckpointRepairsTheStateAfterAFailedLaunch) {
  World world({.devices = 2});
  CheckpointTrainer trainer(world, "data=2");
  auto twice = compile(world.mesh("data=2"), [](Tensor x) { return x * 2; });
  trainer.losses(2);
  world.save(path("c"), {.position = 2});
  const auto expected = trainer.losses(3, 2);
  EXPECT_THROW(twice(Feed{std::make_shared<BrokenSource>(), 0}).wait(), Error);
  EXPECT_THAT(error_of([&] { trainer.losses(1); }), HasSubstr("unusable"));
  EXPECT_THAT(error_of([&] { world.save(path("c")); }), HasSubstr("the world's state is from a failed launch"));
  EXPECT_THAT(error_of([&] { world.load(path("c"), {.parameters = trainer.net.parameters(), .extra = true}); }),
              HasSubstr("load a complete checkpoint"));
  EXPECT_THAT(error_of([&] { trainer.losses(1); }), HasSubstr("unusable"))
      << "a rejected load must not repair the world";
  EXPECT_EQ(world.load(path("c")).position, 2);
  EXPECT_EQ(trainer.losses(3, 2), expected);
}

TEST_F(Checkpoint, APositionThatIsNotANumberIsRejected) {
  World world;
  auto load = [&](const std::string& position) {
    data::WeightWriter(path("c"), {}, {{"format", "karez"}, {"karez.position", position}}).commit();
    return world.load(path("c")).position;
  };
  EXPECT_EQ(load("0"), 0);
  EXPECT_EQ(load("12"), 12);
  for (const std::string text : {"x12", "", "-1", "1x", "9223372036854775808"})
    EXPECT_EQ(error_of([&] { load(text); }),
              cat(path("c"), ": the data position must be an integer of at least 0, got \"", text, "\""));
}

}  // namespace
}  // namespace karez
