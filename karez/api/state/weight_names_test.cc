// Tests of how the names in a checkpoint are matched with parameters: rules, equal names, and running statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/testing/test_checkpoint.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// GPT-2 stores weights as [in, out], and stores the weights of queries, keys and values in one tensor.
TEST_F(Checkpoint, RulesMapTheNamesAndShapesThatOtherProgramsUse) {
  struct Block : nn::Module {
    using Module::Module;
    nn::Linear query{*this, "query", 2, 2}, key{*this, "key", 2, 2}, value{*this, "value", 2, 2};
    nn::LayerNorm norm{*this, "norm", {2}};
    Tensor operator()(Tensor x) { return norm(query(x) + key(x) + value(x)); }
  };
  struct Decoder : nn::Module {
    Block a{*this, "block0"}, b{*this, "block1"};
    Tensor operator()(Tensor x) { return b(a(x)); }
  } net;
  std::vector<FileTensor> tensors;
  for (const char* h : {"0", "1"}) {
    const float first = h[0] == '1' ? 100.f : 0.f;
    tensors.push_back({cat("model.h.", h, ".attn.c_attn.weight"), {2, 6}, first});
    tensors.push_back({cat("model.h.", h, ".attn.c_attn.bias"), {6}, first + 20});
    tensors.push_back({cat("model.h.", h, ".attn.mask"), {3}});
    tensors.push_back({cat("model.h.", h, ".ln.weight"), {2}, first + 30});
    tensors.push_back({cat("model.h.", h, ".ln.bias"), {2}, first + 40});
  }
  std::vector<WeightRule> rules = {{"model.h.*.ln.*", "block*.norm.*"}, {"model.h.*.attn.mask", ""}};
  const char* const parts[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    rules.push_back({.file = "model.h.*.attn.c_attn.weight",
                     .name = cat("block*.", parts[i], ".weight"),
                     .transposed = true,
                     .part = i,
                     .parts = 3,
                     .axis = 1});
    rules.push_back(
        {.file = "model.h.*.attn.c_attn.bias", .name = cat("block*.", parts[i], ".bias"), .part = i, .parts = 3});
  }
  World world({.devices = 2});
  auto f = compile(world.mesh("model=2"), [&](Tensor x) { return net(x); });
  world.load(write_file("gpt", tensors), {.parameters = net.parameters(), .rules = rules});
  f(sine_values({3, 2}, 0)).wait();
  EXPECT_THAT(list(world.read("block0.query.weight")), ElementsAre(0, 6, 1, 7));
  EXPECT_THAT(list(world.read("block0.key.weight")), ElementsAre(2, 8, 3, 9));
  EXPECT_THAT(list(world.read("block1.value.weight")), ElementsAre(104, 110, 105, 111));
  EXPECT_THAT(list(world.read("block0.value.bias")), ElementsAre(24, 25));
  EXPECT_THAT(list(world.read("block1.norm.weight")), ElementsAre(130, 131));
  EXPECT_THAT(list(world.read("block0.norm.bias")), ElementsAre(40, 41));
}

TEST_F(Checkpoint, TwoModelsOfTheSameClassAreDistinguished) {
  World world;
  CheckpointNet a, b;
  auto make = [](World& in, CheckpointNet& x, CheckpointNet& y) {
    return compile(in.mesh(), [&](Tensor t) { return x(t) + y(t) * 2; }, {.train = false});
  };
  auto f = make(world, a, b);
  f(sine_values({2, 6}, 0)).wait();
  world.write(a.fc1.bias, sine_values({8}, 1));
  world.write(b.fc1.bias, sine_values({8}, 2));
  const auto value = bytes_of(f(sine_values({2, 6}, 0)).value().read());
  world.save(path("c"));
  world.load(path("c"));
  EXPECT_EQ(bytes_of(f(sine_values({2, 6}, 0)).value().read()), value);
  World other_world;
  CheckpointNet c, d;  // in another process, these would have the same ordinals as a and b
  auto g = make(other_world, c, d);
  std::vector<Parameter> all_parameters = c.parameters();
  for (const Parameter& p : d.parameters()) all_parameters.push_back(p);
  other_world.load(path("c"), {.parameters = all_parameters});
  EXPECT_EQ(bytes_of(g(sine_values({2, 6}, 0)).value().read()), value);
  other_world.load(path("c"));
  EXPECT_EQ(bytes_of(g(sine_values({2, 6}, 0)).value().read()), value);
  World partial_world;  // the variables of one model exist, and the values of the other wait
  CheckpointNet first, second;
  auto run_first = compile(partial_world.mesh(), [&](Tensor t) { return first(t); }, {.train = false});
  run_first(sine_values({2, 6}, 0)).wait();
  for (const auto& [path, parameter] : first.named_parameters())
    partial_world.write(parameter, other_world.read(c.parameter(path)));
  partial_world.load(
      write_file("one", {{"fc1.weight", {8, 6}}, {"fc1.bias", {8}, 50}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}}}),
      {.parameters = second.parameters()});
  partial_world.save(path("half"));
  World full_world;
  CheckpointNet g1, g2;
  auto h = make(full_world, g1, g2);
  h(sine_values({2, 6}, 0)).wait();
  full_world.load(path("half"));
  EXPECT_EQ(bytes_of(full_world.read(g1.fc1.bias)), bytes_of(other_world.read(c.fc1.bias)));
  EXPECT_THAT(list(full_world.read(g2.fc1.bias)), ElementsAre(50, 51, 52, 53, 54, 55, 56, 57));
  World third;
  CheckpointNet e;
  compile(third.mesh(), [&](Tensor t) { return e(t); }, {.train = false})(sine_values({2, 6}, 0)).wait();
  EXPECT_THAT(
      error_of([&] { third.load(path("c")); }),
      HasSubstr("1 variable is named 'fc1.bias', but the file has 2 (\"fc1.bias\", \"fc1.bias#1\"): the match is "
                "ambiguous; give the variables distinct names"));
}

TEST_F(Checkpoint, TwoParametersWithTheSameNameAreDistinguished) {
  World world;
  Parameter first("twin", {DType::f32, {2}}, constant_init(0)), second("twin", {DType::f32, {2}}, constant_init(0));
  ASSERT_EQ(first.ordinal(), 0);
  ASSERT_EQ(second.ordinal(), 1);
  compile(world.mesh(), [&] { return first + second; }, {.train = false})().wait();
  world.load(write_file("twins", {{"twin", {2}, 1}, {"twin#1", {2}, 5}}));
  EXPECT_THAT(list(world.read(first)), ElementsAre(1, 2));
  EXPECT_THAT(list(world.read(second)), ElementsAre(5, 6));
  EXPECT_THAT(error_of([&] {
                world.load(write_file("same", {{"twin", {2}}, {"twin#0", {2}}}));
              }),
              HasSubstr("tensors \"twin\" and \"twin#0\" are both named 'twin' in this program"));
}

TEST_F(Checkpoint, ParametersCannotBeLoadedWithoutTheirRunningStatistics) {
  struct Normed : nn::Module {
    nn::Linear fc{*this, "fc", 6, 8};
    nn::BatchNorm bn{*this, "bn", 8};
    nn::BatchNorm plain{*this, "plain", 8};
  } net;
  World world;
  const std::vector<FileTensor> file = {{"fc.weight", {8, 6}},    {"fc.bias", {8}},       {"bn.weight", {8}},
                                        {"bn.bias", {8}},         {"plain.weight", {8}},  {"plain.bias", {8}},
                                        {"bn.running_mean", {8}}, {"adam.m.fc.bias", {8}}};
  const auto load_error = [&](const LoadOptions& options) {
    return error_of([&] { world.load(write_file("m", file), options); });
  };
  const char* hint =
      "load(path, {.parameters = net.state(), .extra = true}) loads a module's running statistics with its parameters "
      "and skips all other tensors";
  std::vector<Parameter> orphans;  // of destroyed modules, whose buffers are unknown
  {
    Normed destroyed;
    orphans = destroyed.parameters();
  }
  EXPECT_THAT(load_error({.parameters = orphans}),
              AllOf(HasSubstr("no parameter is named adam.m.fc.bias, bn.running_mean. "), HasSubstr(hint)));
  EXPECT_EQ(load_error({.parameters = orphans, .extra = true}), "no error");
  EXPECT_THAT(load_error({.parameters = net.parameters()}),
              AllOf(HasSubstr("m: bn.running_mean would not be loaded, but the modules whose parameters are loaded "
                              "need this state"),
                    HasSubstr(hint)));
  for (const std::vector<Parameter>& known_parameters : {std::vector<Parameter>(), net.buffers()}) {
    EXPECT_THAT(load_error({.parameters = net.parameters(), .extra = true, .known = known_parameters}),
                AllOf(HasSubstr("m: bn.running_mean would not be loaded"), HasSubstr(hint)));
    EXPECT_THAT(load_error({.parameters = {net.bn.weight}, .missing = true, .extra = true, .known = known_parameters}),
                HasSubstr("m: bn.running_mean would not be loaded"));
    EXPECT_EQ(load_error({.parameters = net.plain.parameters(), .extra = true, .known = known_parameters}), "no error")
        << "the file has no buffers of this module, so no buffer is ignored";
    EXPECT_EQ(load_error({.parameters = net.parameters(),
                          .rules = {{"bn.running_mean", ""}},
                          .extra = true,
                          .known = known_parameters}),
              "no error")
        << "a buffer that a rule skips by name must be allowed";
  }
  EXPECT_EQ(load_error({.parameters = net.fc.parameters(), .extra = true}), "no error")
      << "the buffers belong to another module";
  EXPECT_EQ(load_error({.parameters = net.fc.parameters(), .extra = true, .known = net.buffers()}), "no error")
      << "the buffers belong to another module";
  EXPECT_THAT(load_error({.parameters = net.fc.parameters()}), HasSubstr("{.extra = true} skips all of them"));
  EXPECT_EQ(load_error({.parameters = net.state(), .missing = true, .extra = true}), "no error");
}

}  // namespace
}  // namespace karez
