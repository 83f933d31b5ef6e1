// Tests of the complete texts of errors about meshes, functions, variables, tensors and options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "karez/api/compile.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/optim.h"
#include "karez/api/options.h"
#include "karez/api/parts.h"
#include "karez/api/random.h"
#include "karez/api/scopes.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/evaluator.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

// An error's text, and a call that throws it.
using Case = std::pair<std::string, std::function<void()>>;

// Checks the texts without the line of the call.
void check(const std::vector<Case>& cases) {
  for (const auto& [text, call] : cases) {
    const std::string error = error_of(call);
    EXPECT_EQ(error.substr(0, error.find("\n  at ")), text);
  }
}

TEST(ErrorTexts, Meshes) {
  World world({.devices = 4}), limited({.devices = 8, .device_limit = 8});
  const auto mesh = [&](const char* text, MeshPlace place = {}) {
    return [&world, text, place] { world.mesh(text, place); };
  };
  check({
      {"mesh(data=8) takes 8 devices, but the world has 4; World({.devices = 8}) has enough", mesh("data=8")},
      {"mesh(data=2) takes devices 3 to 4, but the world has 4; World({.devices = 5}) has enough",
       mesh("data=2", {.first = 3})},
      {"mesh(data=9) takes 9 devices, but the limit is 8; a higher WorldOptions::device_limit allows more, but plans "
       "for so many devices take minutes to make",
       [&] { limited.mesh("data=9"); }},
      {"mesh(data=2): both first = 1 and devices = 1, 2 are given; give only one of the two",
       mesh("data=2", {.first = 1, .devices = {1, 2}})},
      {"mesh(data=2): the first device must be at least 0, got -1", mesh("data=2", {.first = -1})},
      {"mesh(data=2) takes 2 devices, but 3 are listed", mesh("data=2", {.devices = {1, 2, 3}})},
      {"mesh(data=2): device 4 does not exist; the world has devices 0 to 3", mesh("data=2", {.devices = {1, 4}})},
      {"mesh(data=2): device -1 does not exist; the world has devices 0 to 3", mesh("data=2", {.devices = {-1, 1}})},
      {"mesh(a=3): device 2 is listed twice", mesh("a=3", {.devices = {2, 1, 2}})},
      {"no error", mesh("data=2", {.devices = {3, 0}})},
      {"no error", mesh("data=4")},
      {"no error", [&] { limited.mesh("data=8"); }},
      {"World: data_cores must be from 0 to 1024, got -1", [] { World({.data_cores = -1}); }},
      {"World: data_cores must be from 0 to 1024, got 1025", [] { World({.data_cores = 1025}); }},
      {"World: automatic data_cores change the number of threads of kernels, so team must be 0, got 2",
       [] { World({.team = 2, .data_cores = data::automatic}); }},
      {"World: memory must be at least 0 (0 means no limit), got -1", [] { World({.memory = -1}); }},
      {"World: workers must be at least 0 (0 chooses the number automatically), got -1",
       [] { World({.workers = -1}); }},
      {"World: team must be from 0 to 1024 (0 chooses the number automatically), got 1025",
       [] { World({.team = 1025}); }},
      {"cannot open the cost table '/none/costs'", [] { World({.cost_file = "/none/costs"}); }},
  });
  EXPECT_EQ(world.mesh("data=2", {.devices = {3, 0}}).mesh.devices, (std::vector<DeviceName>{{0, 3}, {0, 0}}));
  EXPECT_EQ(world.mesh("data=2", {.first = 1}).mesh.devices, (std::vector<DeviceName>{{0, 1}, {0, 2}}));
}

TEST(ErrorTexts, Functions) {
  World world, other_world;
  const DeviceMesh mesh = world.mesh();
  const auto one = [](Tensor x) { return x + 1; };
  const auto two = [](Tensor x, Tensor y) { return x + y; };
  const auto any = [](std::vector<Tensor> xs) { return xs; };
  const auto with = [&](const FunctionOptions& options) { return [=] { compile(mesh, one, options); }; };
  const auto scaled = [](double growth, std::string growth_text, std::int64_t interval, double backoff,
                         std::string backoff_text) {
    return std::pair(
        cat("compile: the loss scale has growth ", growth_text, ", interval ", interval, " and backoff ", backoff_text,
            "; growth must be at least 1, interval at least 1, and backoff above 0 and at most 1"),
        FunctionOptions{.loss_scale = {.growth = growth, .backoff = backoff, .interval = interval}});
  };
  for (const auto& [text, options] :
       {scaled(0.5, "0.5", 1, 0.5, "0.5"), scaled(std::numeric_limits<double>::infinity(), "inf", 1, 0.5, "0.5"),
        scaled(2, "2.0", 0, 0.5, "0.5"), scaled(2, "2.0", 7, 0, "0.0"), scaled(2, "2.0", 7, 1.5, "1.5")})
    check({{text, with(options)}});
  auto f = compile(mesh, one, {.name = "f"});
  auto g = compile(mesh, two, {.name = "g"});
  const Array elsewhere = array_on(other_world.mesh(), vector_of(1));
  const Future result = f(vector_of(1, 2));
  check({
      {"no error", with({.loss_scale = {.growth = 1, .backoff = 1, .interval = 1}})},
      {"compile requires a mesh made by World::mesh", [&] { compile(DeviceMesh{}, one); }},
      {"compile: microbatches is 0; it must be at least 1", with({.microbatches = 0})},
      {"compile: unbatched contains argument 1, but the number of arguments is 1", with({.unbatched = {0, 1}})},
      {"compile: unbatched contains argument -1, but the number of arguments is 1", with({.unbatched = {-1}})},
      {"compile: unbatched contains argument -1; it must be at least 0",
       [&] {
         compile(mesh, any, {.unbatched = {7, -1}});
       }},
      {"compile: keep is 0; it must be at least 1", with({.keep = 0})},
      {"function 'h': amp is 'f8'; it must be bf16 or f16, or empty for f32", with({.amp = "f8", .name = "h"})},
      {"function 'f' expects 1 argument, got 2", [&] { f(vector_of(1), vector_of(1)); }},
      {"function 'g' expects 2 arguments, got 1", [&] { g(vector_of(1)); }},
      {"function 'f' expects 1 argument, got 0", [&] { f.compile({}); }},
      {"function 'g' expects 2 arguments, got 3", [&] { g.compile(std::vector<TensorType>(3)); }},
      {"argument 1 of function 'g' has no source", [&] { g(vector_of(1), Feed()); }},
      {"argument 0 of function 'f' is an array of a different world; pass the host array that read() returns",
       [&] { f(elsewhere); }},
      {"function 'g' has no plan before its first call (or `compile`)", [&] { g.summary(); }},
      {"result 1 does not exist; the call has 1 results", [&] { result.value(1); }},
      {"the array is uninitialised; Future::value returns valid arrays", [] { Array().type(); }},
      {"local: the array is uninitialised", [] { local(HostArray()); }},
  });
  EXPECT_EQ(result.size(), 1u);
  result.wait();
  EXPECT_TRUE(result.done());
}

TEST(ErrorTexts, Variables) {
  World world;
  const Parameter w("w", {DType::f32, {2}}, constant_init(1)), twin("w", {DType::f32, {3}}, constant_init(2)),
      unused("unused", {DType::f32, {}}, constant_init(2)),
      wrong("wrong", {DType::f32, {2}}, value_init(vector_of(1, 2, 3)));
  compile(world.mesh(), [&] { return w * 1; })().wait();
  const HostArray no_array;
  check({
      {"no variable 'v' exists yet: a variable is created by the first call of a function that uses it; there is 1: w",
       [&] { world.read("v"); }},
      {"variable 'w' is f32[2], not an uninitialised array", [&] { world.write("w", no_array); }},
      {"variable 'w' is f32[2], not an uninitialised array", [&] { world.write(w, no_array); }},
      {"variable 'w' is f32[2], not f32[3]", [&] { world.write("w", vector_of(1, 2, 3)); }},
      {"parameter 'unused' is f32[], not f32[2]", [&] { world.write(unused, vector_of(1, 2)); }},
      {"parameter 'unused' is f32[], not an uninitialised array", [&] { world.write(unused, no_array); }},
      {"parameter 'unused' has no variable yet: the first call of a function that uses the parameter creates it",
       [&] { world.read(unused); }},
      {"parameter 'unused' has no variable yet: the first call of a function that uses the parameter creates it",
       [&] { place_of(world, unused); }},
  });
  world.write(w, vector_of(5, 6));
  compile(world.mesh(), [&] { return twin * 1; })().wait();
  optim::SGD sgd({unused}, {});
  check({
      {cat("'w' is the name of 2 variables: f32[2;] (ordinal ", w.ordinal(), ") and f32[3;] (ordinal ", twin.ordinal(),
           "); select one of them by its Parameter"),
       [&] { world.read("w"); }},
      {"variable 'wrong' is f32[2]; its initialiser makes f32[3]", [&] { world.first_values({wrong}); }},
      {"a parameter is named 'a#b'; '#' is reserved for numbering parameters with the same name",
       [&] { unused.set_name("a#b"); }},
      {"step: parameter 'unused' is f32[]; its gradient is f32[2]",
       [&] { compile(world.mesh(), [&] { sgd.step({full({2}, 1)}); })(); }},
      {"the parameter is uninitialised", [&] { compile(world.mesh(), [] { return relu(Parameter()); })(); }},
      {"the parameter is uninitialised", [&] { compile(world.mesh(), [] { return full({2}, 1) + Parameter(); })(); }},
      {"a parameter f32[1] has an empty name",
       [] {
         Parameter("", {DType::f32, {1}}, constant_init(0));
       }},
      {"load: parameter number 1 is uninitialised",
       [&] {
         const std::string path = ::testing::TempDir() + "karez_error_texts.safetensors";
         world.save(path);
         world.load(path, {.parameters = {w, Parameter()}});
       }},
  });
  EXPECT_EQ(list(world.read(w)), (std::vector<float>{5, 6}));
  EXPECT_EQ(list(world.read(twin)), (std::vector<float>{2, 2, 2}));
}

TEST(ErrorTexts, Tensors) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Tensor x = vector_of(1, 2);
  Tensor traced;
  compile(mesh, [&](Tensor t) { return traced = t + 1; })(vector_of(1, 2)).wait();
  check({
      {"Interactive requires a mesh made by World::mesh", [] { Interactive scope{DeviceMesh{}}; }},
      {"Within: no program is being traced on this thread", [] { Within scope("block"); }},
      {"Placed: no program is being traced on this thread; Interactive sets the mesh of computations outside of "
       "compiled functions",
       [&] { Placed scope(mesh); }},
      {"no program is being traced on this thread", [] { Trace::current(); }},
      {"random numbers must have a floating-point dtype, got i32", [] { random_uniform({2}, DType::i32); }},
      {"random numbers must have a floating-point dtype, got bool", [] { random_normal({2}, DType::b8); }},
      {"random numbers outside of a compiled function: the mesh is unknown; pass an operand that is an Array, or set "
       "the mesh with Interactive on(mesh)",
       [] { random_uniform({2}); }},
      {"the mesh of this computation is unknown, because no operand is an Array; set it with Interactive on(mesh)",
       [&] { (x + 1).read(); }},
      {"a tensor f32[2] of a program that was traced is used outside of the program, where it has no bytes: return it "
       "from the function, and compute with the result of a call",
       [&] { traced + 1; }},
      {"an operand is an uninitialised tensor", [] { relu(Tensor()); }},
      {"value_and_grad: there is no argument -1; the number of arguments is 1",
       [&] { value_and_grad([](Tensor t) { return sum(t); }, {.arguments = {-1}})(x); }},
      {"value_and_grad: the function returns 2 tensors; it must return one scalar",
       [&] { value_and_grad([](Tensor t) { return std::pair(t, t); })(x); }},
      {"grad outside of a compiled function: the computation of the loss is not available; value_and_grad(f)(x) "
       "computes f(x) and its gradients",
       [&] { grad(sum(x), std::vector<Tensor>{x}); }},
      {"a tensor f32[2] of a program that is being traced has no mesh and layout yet: the planner chooses them",
       [&] { place_of(traced); }},
      {"the mesh of a tensor f32[2] cannot be requested while its program is being traced: it is the mesh of the "
       "program",
       [&] { mesh_of(traced); }},
      {"laid_on requires a mesh made by World::mesh", [&] { laid_on(x, DeviceMesh{}, {"data"}); }},
      {"laid_on: a program that is being traced runs on the mesh of its function; no other mesh can be set",
       [&] { compile(mesh, [&](Tensor t) { return laid_on(t, mesh, {""}); })(vector_of(1, 2)); }},
  });
}

// A number from an array of i64 that is passed as a number, as Python does.
TEST(ErrorTexts, NumbersThatDoNotFit) {
  World world;
  Interactive scope(world.mesh());
  const Tensor n = HostArray::of<std::int32_t>({2}, {1, 2});
  Term wide(Tensor(HostArray::of<std::int64_t>({}, {std::int64_t{1} << 40})));
  wide.as_number = Term::AsNumber::wide;
  check({{"a number in this call does not fit i32; pass a number from -2147483648 to 2147483647, or arrays of i64",
          [&] { n + wide; }}});
  EXPECT_EQ((cast(n, DType::i64) + wide).read().data<std::int64_t>()[1], (std::int64_t{1} << 40) + 2);
  wide.as_number = Term::AsNumber::yes;
  EXPECT_EQ((n + wide).dtype(), DType::i32);
}

TEST(ErrorTexts, OperandsOfOtherPrograms) {
  World world;
  const Tensor outside = vector_of(1, 2) * Term(2);
  Tensor leaked;
  compile(world.mesh(), [&](Tensor x) { return leaked = x + 1; })(vector_of(1, 2)).wait();
  const auto traced = [&](auto body) { return [&, body] { compile(world.mesh(), body)(vector_of(1, 2)); }; };
  check({
      {"a tensor f32[2] from outside is not part of the program that is being traced: make it an argument of the "
       "function, or keep it in a parameter (see 'tensors from outside' in docs/from-pytorch.md)",
       traced([&](Tensor x) { return x + outside; })},
      {"a tensor f32[2] belongs to another trace: a compiled function can use only its arguments and values that it "
       "makes; keep a value between calls in a parameter",
       traced([&](Tensor x) { return x + leaked; })},
      {"a tensor f32[2] of a program that is being traced has no bytes: return it from the function, and read the "
       "result of a call",
       traced([&](Tensor x) { return x + list(x)[0]; })},
  });
}

TEST(ErrorTexts, EvaluatorOfConstants) {
  const auto kernels = std::make_shared<const KernelTable>(plain_kernels());
  const Evaluate evaluate = make_evaluator(kernels);
  CallSpec call;
  call.op = "matmul";
  call.in = {View(DType::f32, {1, 1}), View(DType::f32, {1, 1})};
  call.out = {View(DType::f32, {1, 1})};
  const auto bytes_of = [](float value) {
    HostBytes out(4);
    std::memcpy(out.data(), &value, 4);
    return out;
  };
  const HostBytes bytes = bytes_of(3), short_bytes(3);
  EXPECT_EQ(evaluate(call, {bytes, bytes_of(5)}), std::vector<HostBytes>{bytes_of(15)});
  const std::string text = print(call);
  check({
      {cat(text, ": expected 2 operands, got 1"), [&] { evaluate(call, {bytes}); }},
      {cat(text, ": operand 1 has 3 bytes"),
       [&] {
         evaluate(call, {bytes, short_bytes});
       }},
  });
  call.op = "unknown";
  EXPECT_THAT(error_of([&] {
                evaluate(call, {bytes, bytes});
              }),
              ::testing::StartsWith(cat("no kernel can evaluate ", print(call), "; ")));
}

TEST(ErrorTexts, CommandLine) {
  const Options options({{"epochs", "3", "number of epochs"},
                         {"a_name_that_is_longer_than_the_column", "", "a path"},
                         {"out", "", "the result"}});
  check({{"the program reads option --batch, which is not in its list of options", [&] { options.integer("batch"); }}});
  EXPECT_EQ(options.help(),
            "  --epochs 3              number of epochs\n"
            "  --a_name_that_is_longer_than_the_column VALUE a path\n"
            "  --out VALUE             the result\n");
  Options help = options;
  const char* arguments[] = {"program", "--epochs=4=5", "-h"};
  EXPECT_FALSE(help.read(3, arguments));
  EXPECT_EQ(help.text("epochs"), "4=5");
}

}  // namespace
}  // namespace karez
