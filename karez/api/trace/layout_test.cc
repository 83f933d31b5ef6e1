// Tests of with_layout in compiled functions: each call makes a separate value, requesting a layout that the value
// already has costs nothing, and contradictions with the layout of a stored parameter are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

HostArray ones(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  for (float& v : out.data<float>()) v = 1;
  return out;
}

// Returns the layouts of the `layout` nodes after a pass.
std::vector<std::string> layouts_after(const Function& f, std::string_view pass) {
  std::vector<std::string> out;
  for (const auto& p : f.passes())
    if (p.name == pass)
      for (const std::string& line : split(p.text, '\n'))
        if (auto at = line.find("= layout("); at != line.npos) {
          auto colon = line.find(" : ", at);
          out.push_back(line.substr(colon + 3, line.find(']', colon) - colon - 2));
        }
  return out;
}

TEST(WithLayout, EachRequestedLayoutOfAValueMakesASeparateValue) {
  World world({.devices = 4});
  auto f =
      compile(world.mesh("data=2,model=2"),
              [](Tensor x) {
                Tensor y = x * 2;
                return std::pair(with_layout(y, P("data", nullptr)) + 1, with_layout(y, P(nullptr, "data+model")) + 2);
              },
              {.keep_text = true});
  Future out = f(ones({8, 6}));
  EXPECT_THAT(list(out.value(0).read()), Each(3.0f));
  EXPECT_THAT(list(out.value(1).read()), Each(4.0f));
  for (const char* pass : {"canonicalise", "shard"})
    EXPECT_THAT(layouts_after(f, pass), ::testing::UnorderedElementsAre("f32[8@data, 6]", "f32[8, 6@data@model]"))
        << pass;
}

TEST(WithLayout, ALayoutThatTheValueHasCostsNothing) {
  World world;
  auto calls = [&](auto body) {
    auto f = compile(world.mesh(), body);
    EXPECT_THAT(list(f(ones({8, 6})).value().read()), Each(6.0f));
    std::size_t n = 0;
    for (const auto& actor : f.plan().actors) n += actor.calls.size();
    return n;
  };
  EXPECT_EQ(calls([](Tensor x) { return exp(x) * 0 + with_layout(x * 2, P(nullptr)) * 3; }),
            calls([](Tensor x) { return exp(x) * 0 + x * 2 * 3; }));
}

TEST(WithLayout, PassesAndGradientsSupportLayouts) {
  World world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor x) {
    Tensor split = with_layout(x, P("data")), replicated = with_layout(split, P(nullptr));
    return grad(sum(split * split + replicated * 3), std::vector<Tensor>{x})[0];
  });
  EXPECT_THAT(list(f(ones({5})).value().read()), Each(5.0f));
}

TEST(WithLayout, ALayoutOfAParameterFixesItsStoredLayout) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("model=2");
  Parameter w("w", {DType::f32, {4, 6}}, constant_init(1));
  auto hinted = [&](std::vector<std::string> axes, FunctionOptions options = {}) {
    return compile(
        mesh, [&w, axes](Tensor x) { return matmul(x, with_layout(w, axes)); }, std::move(options));
  };
  EXPECT_THAT(error_of([&] {
                hinted(P("model", nullptr), {.rules = {{"w", P(nullptr, "model")}}})(ones({3, 4}));
              }),
              AllOf(HasSubstr("rule 'w' requires w as f32[4, 6@model]"), HasSubstr("f32[4@model, 6]")));
  EXPECT_THAT(
      error_of([&] {
        compile(mesh, [&](Tensor x) {
          Tensor rows = matmul(x, with_layout(w, P("model", nullptr)));
          return rows + matmul(x, with_layout(w, P(nullptr)));
        })(ones({3, 4}));
      }),
      AllOf(HasSubstr("parameter 'w' is requested as f32[4, 6;]"),
            HasSubstr("an earlier with_layout or rule stores it as f32[4@model, 6]"), HasSubstr("layout_test.cc:")));
  EXPECT_THAT(list(hinted(P("model", nullptr))(ones({3, 4})).value().read()), Each(4.0f));
  EXPECT_EQ(world.layout(w), Layout{S(0)});
  EXPECT_THAT(error_of([&] {
                hinted(P(nullptr, "model"))(ones({3, 4}));
              }),
              AllOf(HasSubstr("'w' to be stored as f32[4, 6@model]"),
                    HasSubstr("an earlier function stored it as f32[4@model, 6]")));
  EXPECT_THAT(list(hinted(P("model", nullptr))(ones({3, 4})).value().read()), Each(4.0f))
      << "a second request for the same layout must be allowed";
}

}  // namespace
}  // namespace karez
