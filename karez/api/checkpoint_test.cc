// Tests of checkpoints: saving and loading variables, matching of names, and refused files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "karez/api/namespace.h"
#include "karez/api/test_texts.h"
#include "karez/base/text.h"
#include "karez/data/weight_writer.h"
#include "karez/karez.h"

namespace karez {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() : folder_(fs::path(::testing::TempDir()) / ("karez_checkpoint_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Checkpoint() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // A handmade file: each tensor is f32 with the elements first, first + 1, ...
  struct Made {
    std::string name;
    Shape shape;
    float first = 1;
  };
  std::string made(const std::string& file, const std::vector<Made>& tensors) const {
    std::string header = "{", data;
    for (const Made& one : tensors) {
      const std::size_t begin = data.size();
      for (std::int64_t i = 0; i < count_of(one.shape); ++i) {
        const float value = one.first + static_cast<float>(i);
        data.append(reinterpret_cast<const char*>(&value), 4);
      }
      header += cat(header.size() > 1 ? "," : "", "\"", one.name, "\":{\"dtype\":\"F32\",\"shape\":[",
                    join(one.shape, ","), "],\"data_offsets\":[", begin, ",", data.size(), "]}");
    }
    header += "}";
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 255);
    std::ofstream(at(file), std::ios::binary) << length << header << data;
    return at(file);
  }

 private:
  fs::path folder_;
};

struct Net : nn::Module {
  Net() = default;
  explicit Net(const std::string& name) : Module(name) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 4};
  Tensor operator()(Tensor x) { return fc2(dropout(tanh(fc1(x)), 0.25)); }
};

HostArray numbers(const Shape& shape, int step) {
  HostArray out(TensorType{DType::f32, shape});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + step));
  return out;
}

// A model with its optimiser and its training step in a world.
struct Trained {
  explicit Trained(World& world, const std::string& mesh = "", const std::string& name = "")
      : net(name),
        adam(net.parameters(), {.lr = 0.05, .name = name + "adam"}) {
    step.emplace(compile(world.mesh(mesh), [this](Tensor x) {
      Tensor loss = mean(net(x) * net(x));
      adam.step(grad(loss, net.parameters()));
      return loss;
    }));
  }
  std::vector<double> losses(int steps, int first = 0) {
    std::vector<double> out;
    for (int i = 0; i < steps; ++i) out.push_back((*step)(numbers({8, 6}, first + i)).item());
    return out;
  }
  Net net;
  optim::Adam adam;
  std::optional<Function> step;
};

std::string bits(const HostArray& array) {
  return {reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(array.type().bytes())};
}
std::map<std::string, std::string> all_bits(const World& world) {
  std::map<std::string, std::string> out;
  for (const std::string& name : world.variables()) out[name] = bits(world.read(name));
  return out;
}

TEST_F(Checkpoint, LoadsEveryVariableBitForBitOnAnyMesh) {
  World world({.devices = 4});
  Trained trained(world, "data=2,model=2");
  trained.losses(3);
  world.save(at("c"), {.position = 3, .notes = {{"epoch", "7"}}});
  const auto saved = all_bits(world);
  EXPECT_EQ(saved.size(), 4u * 3 + 2) << "weights, two moments of each, Adam's step and the random counter";
  for (const char* mesh : {"", "data=2,model=2", "model=3", "data=4"}) {
    World fresh({.devices = 4, .seed = 99}), used({.devices = 4, .seed = 99});
    Trained young(fresh, mesh), old(used, mesh);
    old.losses(1);  // its variables exist, with other values
    const CheckpointNotes notes = fresh.load(at("c"));
    EXPECT_EQ(notes.position, 3);
    EXPECT_EQ(notes.notes, (std::map<std::string, std::string>{{"epoch", "7"}}));
    EXPECT_EQ(fresh.waiting().size(), saved.size());
    used.load(at("c"));
    EXPECT_EQ(all_bits(used), saved) << mesh;
    const auto next = young.losses(1, 3);  // its variables are created with the loaded values
    EXPECT_THAT(fresh.waiting(), IsEmpty());
    EXPECT_EQ(next, old.losses(1, 3)) << mesh;
    EXPECT_EQ(all_bits(fresh), all_bits(used)) << mesh;
  }
}

TEST_F(Checkpoint, ContainsTheResultsOfEarlierCalls) {
  World world({.in_flight = 8});
  Parameter w("w", {DType::f32, {1000}}, constant_init(0));
  optim::SGD sgd({w}, {.lr = 1});
  auto step = compile(world.mesh(), [&] { sgd.step({full({1000}, -1)}); });
  for (int i = 0; i < 5; ++i) step();
  world.save(at("c"));
  for (int i = 0; i < 3; ++i) step();
  World other;
  auto read = compile(other.mesh(), [&] { return w * 1; });
  other.load(at("c"));
  EXPECT_THAT(list(read().value().read()), Each(5.f)) << "without the calls made after it";
}

TEST_F(Checkpoint, ACheckpointOfAnotherModelIsRefusedAndChangesNothing) {
  World world;
  Trained trained(world);
  trained.losses(2);
  const auto before = all_bits(world);
  const auto refused = [&](const std::string& path, const LoadOptions& options = {}) {
    const std::string error = error_of([&] { world.load(path, options); });
    EXPECT_EQ(all_bits(world), before) << error;
    EXPECT_THAT(world.waiting(), IsEmpty()) << error;
    return error;
  };
  const auto weights = trained.net.parameters();
  const std::vector<Made> good = {{"fc1.weight", {8, 6}}, {"fc1.bias", {8}}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}}};
  auto with = [&](std::size_t i, Made one) {
    auto out = good;
    out[i] = std::move(one);
    return made("m", out);
  };
  EXPECT_THAT(refused(made("m", good)), AllOf(HasSubstr("m: it has no tensor for adam.m.fc1.bias, adam.m.fc1.weight, "),
                                              HasSubstr(" and 2 more; ")));
  EXPECT_THAT(refused(with(2, {"fc3.weight", {4, 8}}), {.parameters = weights}),
              HasSubstr("m: it has no tensor for fc2.weight; for fc2.weight there is 1: fc3.weight that no parameter "
                        "takes. A WeightRule maps names"));
  EXPECT_THAT(refused(with(2, {"fc3.weight", {4, 8}}), {.parameters = weights, .missing = true}),
              HasSubstr("m: no parameter is named fc3.weight. "));
  EXPECT_THAT(refused(with(0, {"fc1.weight", {6, 8}}), {.parameters = weights}),
              HasSubstr("m: tensor \"fc1.weight\" is F32[6, 8]; parameter 'fc1.weight' is f32[8, 6]; a rule with "
                        ".transposed exchanges the dimensions"));
  EXPECT_THAT(refused(with(1, {"fc1.bias", {9}}), {.parameters = weights}),
              HasSubstr("m: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  world.save(at("c"));
  std::string bytes;
  {
    std::ifstream in(at("c"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto replaced = bytes;
  replaced.replace(replaced.find("\"I64\",\"shape\":[]"), 16, "\"F64\",\"shape\":[]");
  std::ofstream(at("d"), std::ios::binary) << replaced;
  EXPECT_THAT(refused(at("d")), HasSubstr("d: the header does not match its checksum"));
  for (const char* note : {"karez.header", "karez.checksums"})
    replaced.replace(replaced.find(note), 5, "other");  // as in a file without them
  std::ofstream(at("d"), std::ios::binary) << replaced;
  EXPECT_THAT(
      refused(at("d")),
      HasSubstr(
          "d: tensor \"adam.step\" is F64[]; parameter 'adam.step' is i64[]; a dtype is only converted without loss"));
  auto flipped = bytes;
  flipped.back() = static_cast<char>(flipped.back() ^ 4);
  std::ofstream(at("d"), std::ios::binary) << flipped;
  EXPECT_THAT(refused(at("d")), HasSubstr("do not match their checksum: the file is damaged"));
  fs::resize_file(at("d"), bytes.size() - 1);
  EXPECT_THAT(refused(at("d")), HasSubstr("d: tensor "));
  EXPECT_THAT(refused(at("none")), HasSubstr("cannot read "));
  const auto rule = [&](const WeightRule& one) {
    return refused(made("m", good), {.parameters = weights, .rules = {one}});
  };
  EXPECT_THAT(rule({"fc9.*", "fc1.*"}),
              HasSubstr("m: rule {\"fc9.*\", \"fc1.*\"} matches no tensor of the file; there are 4: fc"));
  EXPECT_THAT(rule({"fc1*", "fc1*"}), HasSubstr("matches no tensor of the file")) << "a star does not match a dot";
  EXPECT_THAT(rule({"fc*.*", "fc1.*"}),
              HasSubstr("m: rule {\"fc*.*\", \"fc1.*\"} has 2 stars on one side and 1 on the other"));
  EXPECT_THAT(rule({"fc2.*", "fc1.*"}), HasSubstr("are both named 'fc1."));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .part = 0, .parts = 2}),
              HasSubstr("tensor \"fc2.bias\" is cut into 2 parts, and 1 are used"));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .part = 2, .parts = 2}),
              HasSubstr("part 2 of 2 does not exist"));
  EXPECT_THAT(rule({.file = "fc2.bias", .name = "fc2.bias", .transposed = true}),
              HasSubstr("m: tensor \"fc2.bias\" F32[4] must have two dimensions to be transposed"));
}

TEST_F(Checkpoint, OnlyAModelsWeightsAreLoadedWhetherTheyExistOrNot) {
  const std::string file = made("m", {{"fc1.weight", {8, 6}, 100},
                                      {"fc1.bias", {8}, 200},
                                      {"fc2.weight", {4, 8}, 300},
                                      {"fc2.bias", {4}, 400},
                                      {"more", {2}}});
  World world({.devices = 2});
  Trained there(world, "data=2"), unborn(world, "data=2");
  there.losses(1);
  const auto moments = bits(world.read("adam.m.fc1.bias"));
  for (Trained* one : {&there, &unborn}) {
    EXPECT_THAT(error_of([&] { world.load(file, {.parameters = one->net.parameters()}); }),
                HasSubstr("no parameter is named more. "));
    world.load(file, {.parameters = one->net.parameters(), .extra = true});
  }
  EXPECT_EQ(bits(world.read("adam.m.fc1.bias")), moments);
  EXPECT_THAT(list(world.read(there.net.fc2.bias)), ElementsAre(400, 401, 402, 403));
  EXPECT_THAT(world.waiting(), ElementsAre("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"));
  auto look = compile(world.mesh("data=2"), [&] { return unborn.net.fc2.bias * 1; });
  EXPECT_THAT(list(look().value().read()), ElementsAre(400, 401, 402, 403));
  EXPECT_EQ(world.waiting().size(), 3u);
  unborn.losses(1);
  EXPECT_THAT(world.waiting(), IsEmpty());
  world.load(made("n", {{"fc2.bias", {4}, 7}}), {.parameters = unborn.net.parameters(), .missing = true});
  EXPECT_THAT(list(world.read(unborn.net.fc2.bias)), ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(list(world.read(there.net.fc2.bias)), ElementsAre(400, 401, 402, 403))
      << "another model with the same names is unchanged";
}

// GPT-2 stores [in, out], and queries, keys and values in one tensor.
TEST_F(Checkpoint, RulesMapNamesAndLayoutsOfOtherPrograms) {
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
  std::vector<Made> tensors;
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
  world.load(made("gpt", tensors), {.parameters = net.parameters(), .rules = rules});
  f(numbers({3, 2}, 0)).wait();
  EXPECT_THAT(list(world.read("block0.query.weight")), ElementsAre(0, 6, 1, 7));
  EXPECT_THAT(list(world.read("block0.key.weight")), ElementsAre(2, 8, 3, 9));
  EXPECT_THAT(list(world.read("block1.value.weight")), ElementsAre(104, 110, 105, 111));
  EXPECT_THAT(list(world.read("block0.value.bias")), ElementsAre(24, 25));
  EXPECT_THAT(list(world.read("block1.norm.weight")), ElementsAre(130, 131));
  EXPECT_THAT(list(world.read("block0.norm.bias")), ElementsAre(40, 41));
}

TEST_F(Checkpoint, AVariableMissingInACompleteCheckpointIsAnErrorWhenItIsCreated) {
  World world({.seed = 5});
  Net net;
  auto f = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.train = false});
  const std::vector<Made> three = {{"fc1.weight", {8, 6}}, {"fc1.bias", {8}}, {"fc2.biases", {4}}};
  const std::string file = made("m", three);
  world.load(file);
  EXPECT_EQ(
      error_of([&] {
        f(numbers({2, 6}, 0));
      }),
      cat("variable 'fc2.weight' is used for the first time, but ", file,
          ", which was loaded for all variables, has no value for it; of the waiting values there are 3: fc1.weight, "
          "fc1.bias, fc2.biases. load(path, "
          "{.parameters = net.state()}) loads only a model's weights; with {.missing = true} missing parameters "
          "begin with their initial values"));
  EXPECT_EQ(world.waiting().size(), 3u) << "no variable was created";
  EXPECT_THAT(world.variables(), IsEmpty());
  auto wrong = three;
  wrong[1].shape = {9};
  world.load(made("n", wrong), {.missing = true});
  EXPECT_THAT(error_of([&] {
                f(numbers({2, 6}, 0));
              }),
              HasSubstr("n: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  world.load(file, {.missing = true});
  f(numbers({2, 6}, 0)).wait();
  World other({.seed = 5});
  other.seed(5);
  Net alone;
  compile(other.mesh(), [&](Tensor x) { return alone(x); }, {.train = false})(numbers({2, 6}, 0)).wait();
  EXPECT_EQ(bits(world.read("fc2.bias")), bits(other.read("fc2.bias"))) << "the initial value";
  EXPECT_THAT(list(world.read("fc1.bias")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(world.waiting(), ElementsAre("fc2.biases"));
  world.reset();
  EXPECT_THAT(world.waiting(), IsEmpty());
}

TEST_F(Checkpoint, AMismatchWithKnownParametersIsReportedAtTheLoad) {
  World world;
  Net net, again;
  const LoadOptions known{.known = net.parameters()};
  std::vector<Made> file = {{"fc1.weight", {8, 6}},        {"fc1.bias", {8}}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}},
                            {"adam.m.fc1.weight", {8, 6}}, {"adam.step", {}}, {"other", {3}}};
  const auto loaded = [&](const LoadOptions& options) {
    return error_of([&] { world.load(made("m", file), options); });
  };
  EXPECT_EQ(loaded(known), "no error") << "the rest may belong to an optimiser that is made later";
  file[1].shape = {9};
  EXPECT_THAT(loaded(known), HasSubstr("m: tensor \"fc1.bias\" is F32[9]; parameter 'fc1.bias' is f32[8]"));
  file[1].shape = {8};
  file[2].name = "fc3.weight";
  EXPECT_THAT(loaded(known), HasSubstr("m: it has no tensor for fc2.weight, and there is no parameter for fc3.weight, "
                                       "of the same shape. A WeightRule maps names; "
                                       "with {.missing = true} missing parameters begin with their initial values"));
  EXPECT_EQ(loaded({.missing = true, .known = net.parameters()}), "no error");
  EXPECT_EQ(loaded({.rules = {{"fc3.*", "fc2.*"}}, .known = net.parameters()}), "no error");
  file.erase(file.begin() + 2);
  EXPECT_EQ(loaded(known), "no error") << "an unused parameter needs no value";
}

TEST_F(Checkpoint, ParametersWithoutTheirRunningStatisticsAreAnotherModel) {
  struct Normed : nn::Module {
    nn::Linear fc{*this, "fc", 6, 8};
    nn::BatchNorm bn{*this, "bn", 8};
    nn::BatchNorm plain{*this, "plain", 8};
  } net;
  World world;
  const std::vector<Made> file = {{"fc.weight", {8, 6}},    {"fc.bias", {8}},       {"bn.weight", {8}},
                                  {"bn.bias", {8}},         {"plain.weight", {8}},  {"plain.bias", {8}},
                                  {"bn.running_mean", {8}}, {"adam.m.fc.bias", {8}}};
  const auto loaded = [&](const LoadOptions& options) {
    return error_of([&] { world.load(made("m", file), options); });
  };
  const char* hint =
      "load(path, {.parameters = net.state(), .extra = true}) takes a module's running statistics with its parameters "
      "and leaves out the rest";
  std::vector<Parameter> gone;  // of modules that no longer exist, so that their buffers are unknown
  {
    Normed other;
    gone = other.parameters();
  }
  EXPECT_THAT(loaded({.parameters = gone}),
              AllOf(HasSubstr("no parameter is named adam.m.fc.bias, bn.running_mean. "), HasSubstr(hint)));
  EXPECT_EQ(loaded({.parameters = gone, .extra = true}), "no error");
  EXPECT_THAT(loaded({.parameters = net.parameters()}),
              AllOf(HasSubstr("m: it contains bn.running_mean, state of the modules whose parameters are loaded"),
                    HasSubstr(hint)));
  for (const std::vector<Parameter>& known : {std::vector<Parameter>(), net.buffers()}) {
    EXPECT_THAT(loaded({.parameters = net.parameters(), .extra = true, .known = known}),
                AllOf(HasSubstr("m: it contains bn.running_mean, state of the modules whose parameters are loaded"),
                      HasSubstr(hint)));
    EXPECT_THAT(loaded({.parameters = {net.bn.weight}, .missing = true, .extra = true, .known = known}),
                HasSubstr("m: it contains bn.running_mean"));
    EXPECT_EQ(loaded({.parameters = net.plain.parameters(), .extra = true, .known = known}), "no error")
        << "the file has none of its buffers";
    EXPECT_EQ(
        loaded({.parameters = net.parameters(), .rules = {{"bn.running_mean", ""}}, .extra = true, .known = known}),
        "no error")
        << "skipped by name";
  }
  EXPECT_EQ(loaded({.parameters = net.fc.parameters(), .extra = true}), "no error")
      << "the buffers belong to another module";
  EXPECT_EQ(loaded({.parameters = net.fc.parameters(), .extra = true, .known = net.buffers()}), "no error")
      << "the buffers belong to another module";
  EXPECT_THAT(loaded({.parameters = net.fc.parameters()}), HasSubstr("{.extra = true} leaves out all of them"));
  EXPECT_EQ(loaded({.parameters = net.state(), .missing = true, .extra = true}), "no error");
}

TEST_F(Checkpoint, WaitingValuesAreSavedAgain) {
  World world;
  Trained trained(world);
  trained.losses(2);
  world.save(at("a"));
  World second;
  second.load(at("a"));
  second.save(at("b"));
  Trained later(second);
  auto look = compile(second.mesh(), [&] { return later.net.fc1.bias * 1; });
  look().wait();
  second.save(at("c"));  // one of them is a variable now
  for (const char* name : {"a", "b", "c"}) {
    World third;
    Trained model(third);
    third.load(at(name));
    model.losses(1, 2);
    World reference;
    Trained same(reference);
    reference.load(at("a"));
    same.losses(1, 2);
    EXPECT_EQ(all_bits(third), all_bits(reference)) << name;
  }
}

TEST_F(Checkpoint, TwoModelsOfOneClassAreDistinguished) {
  World world;
  Net a, b;
  auto make = [](World& in, Net& x, Net& y) {
    return compile(in.mesh(), [&](Tensor t) { return x(t) + y(t) * 2; }, {.train = false});
  };
  auto f = make(world, a, b);
  f(numbers({2, 6}, 0)).wait();
  world.write(a.fc1.bias, numbers({8}, 1));
  world.write(b.fc1.bias, numbers({8}, 2));
  const auto value = bits(f(numbers({2, 6}, 0)).value().read());
  world.save(at("c"));
  world.load(at("c"));
  EXPECT_EQ(bits(f(numbers({2, 6}, 0)).value().read()), value);
  World other;
  Net c, d;  // in another process they would have the ordinals of a and b
  auto g = make(other, c, d);
  std::vector<Parameter> both = c.parameters();
  for (const Parameter& p : d.parameters()) both.push_back(p);
  other.load(at("c"), {.parameters = both});
  EXPECT_EQ(bits(g(numbers({2, 6}, 0)).value().read()), value);
  other.load(at("c"));
  EXPECT_EQ(bits(g(numbers({2, 6}, 0)).value().read()), value);
  World half;  // one of them exists, the other one waits
  Net first, second;
  auto of_first = compile(half.mesh(), [&](Tensor t) { return first(t); }, {.train = false});
  of_first(numbers({2, 6}, 0)).wait();
  for (const auto& [path, one] : first.named_parameters()) half.write(one, other.read(c.parameter(path)));
  half.load(made("one", {{"fc1.weight", {8, 6}}, {"fc1.bias", {8}, 50}, {"fc2.weight", {4, 8}}, {"fc2.bias", {4}}}),
            {.parameters = second.parameters()});
  half.save(at("half"));
  World full;
  Net g1, g2;
  auto h = make(full, g1, g2);
  h(numbers({2, 6}, 0)).wait();
  full.load(at("half"));
  EXPECT_EQ(bits(full.read(g1.fc1.bias)), bits(other.read(c.fc1.bias)));
  EXPECT_THAT(list(full.read(g2.fc1.bias)), ElementsAre(50, 51, 52, 53, 54, 55, 56, 57));
  World third;
  Net e;
  compile(third.mesh(), [&](Tensor t) { return e(t); }, {.train = false})(numbers({2, 6}, 0)).wait();
  EXPECT_THAT(error_of([&] { third.load(at("c")); }), HasSubstr("the match is ambiguous; give them distinct names"));
}

TEST_F(Checkpoint, TwoParametersOfOneNameInAProcessAreDistinguished) {
  World world;
  Parameter first("twin", {DType::f32, {2}}, constant_init(0)), second("twin", {DType::f32, {2}}, constant_init(0));
  ASSERT_EQ(first.ordinal(), 0);
  ASSERT_EQ(second.ordinal(), 1);
  compile(world.mesh(), [&] { return first + second; }, {.train = false})().wait();
  world.load(made("twins", {{"twin", {2}, 1}, {"twin#1", {2}, 5}}));
  EXPECT_THAT(list(world.read(first)), ElementsAre(1, 2));
  EXPECT_THAT(list(world.read(second)), ElementsAre(5, 6));
  EXPECT_THAT(error_of([&] {
                world.load(made("same", {{"twin", {2}}, {"twin#0", {2}}}));
              }),
              HasSubstr("tensors \"twin\" and \"twin#0\" are both named 'twin' here"));
}

// An error that is not of the kind `data`, after which the world would remain usable.
struct Broken : Source {
  TensorType type() const override { return {DType::f32, {2}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef&) const override {
    fail(ErrorKind::peer, "the link broke");
  }
};

TEST_F(Checkpoint, AFailedLaunchIsRepairedByLoading) {
  World world({.devices = 2});
  Trained trained(world, "data=2");
  auto twice = compile(world.mesh("data=2"), [](Tensor x) { return x * 2; });
  trained.losses(2);
  world.save(at("c"), {.position = 2});
  const auto next = trained.losses(3, 2);
  EXPECT_THROW(twice(Feed{std::make_shared<Broken>(), 0}).wait(), Error);
  EXPECT_THAT(error_of([&] { trained.losses(1); }), HasSubstr("unusable"));
  EXPECT_THAT(error_of([&] { world.save(at("c")); }), HasSubstr("the world's state is from a failed launch"));
  EXPECT_THAT(error_of([&] { world.load(at("c"), {.parameters = trained.net.parameters(), .extra = true}); }),
              HasSubstr("load a complete checkpoint"));
  EXPECT_THAT(error_of([&] { trained.losses(1); }), HasSubstr("unusable")) << "a refused load repairs nothing";
  EXPECT_EQ(world.load(at("c")).position, 2);
  EXPECT_EQ(trained.losses(3, 2), next);
}

TEST_F(Checkpoint, AFailedSaveKeepsTheOldCheckpoint) {
  World world;
  Trained trained(world);
  trained.losses(1);
  world.save(at("c"));
  EXPECT_THAT(error_of([&] { world.save(at("no/c")); }), HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of([&] { world.save(at("c"), {.position = -1}); }), HasSubstr("the position of the data is -1"));
  EXPECT_THAT(error_of([&] {
                world.save(at("c"), {.notes = {{"karez.x", ""}}});
              }),
              HasSubstr("a note is named 'karez.x'"));
  EXPECT_THAT(error_of([&] { world.save(at("c"), {.notes = {{"x", "\xff"}}}); }), HasSubstr("not UTF-8"));
  EXPECT_EQ(files(), 1u);
  trained.losses(1);
  EXPECT_EQ(world.load(at("c")).position, 0);
}

TEST_F(Checkpoint, APositionThatIsNotANumberIsRefused) {
  World world;
  auto load = [&](const std::string& position) {
    data::WeightWriter(at("c"), {}, {{"format", "karez"}, {"karez.position", position}}).commit();
    return world.load(at("c")).position;
  };
  EXPECT_EQ(load("0"), 0);
  EXPECT_EQ(load("12"), 12);
  for (const std::string text : {"x12", "", "-1", "1x", "9223372036854775808"})
    EXPECT_EQ(error_of([&] { load(text); }),
              cat(at("c"), ": its position of the data is \"", text, "\", not a number from 0 on"));
}

TEST_F(Checkpoint, OtherThreadsTrainDuringASave) {
  World world({.in_flight = 2});
  Trained trained(world), second(world, "", "second");
  trained.losses(1);
  second.losses(1);
  std::thread thread([&] { second.losses(60, 1); });
  for (int i = 0; i < 20; ++i) world.save(at("c"));
  thread.join();
  World other;
  Trained again(other), next(other, "", "second");
  other.load(at("c"));
  again.losses(1, 1);
  next.losses(1);
  EXPECT_THAT(other.waiting(), IsEmpty());
}

}  // namespace
}  // namespace karez
