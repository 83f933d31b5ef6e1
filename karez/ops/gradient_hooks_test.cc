// Tests of the functions that see and replace gradients while a graph is differentiated.
#include <gtest/gtest.h>

#include "karez/ops/all_ops.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"

namespace karez::ops {
namespace {

using namespace build;

// A part that computes out = x * w and other = x + y from copies, with a hook that notes its calls and doubles
// gradients.
struct HookedPart {
  OpTable ops = all_ops();
  Graph graph;
  Builder b{graph, ops};
  ValueId x = state("x"), y = state("y"), w = state("w");
  std::vector<std::string> calls;
  GradientHook hook;
  ValueId out, other;

  ValueId state(const char* name) {
    const TensorType type{DType::f32, {4}};
    const ValueId read = variable(b, name, type);
    graph.variables.push_back({.name = name, .type = type, .mesh = 0, .stored = {}, .read = read, .updated = {}});
    return read;
  }
  HookedPart() {
    hook.inputs = copies({x, y});
    hook.outputs = copies({mul(b, hook.inputs[0], w), add(b, hook.inputs[0], hook.inputs[1])});
    out = hook.outputs[0], other = hook.outputs[1];
    hook.replace_inputs = [this](std::span<const ValueId> given) { return doubled("inputs", given); };
    hook.replace_outputs = [this](std::span<const ValueId> given) { return doubled("outputs", given); };
  }
  std::vector<ValueId> copies(std::vector<ValueId> values) {
    for (ValueId& value : values) value = build::reshape(b, value, {4});
    return values;
  }
  std::vector<ValueId> doubled(const std::string& name, std::span<const ValueId> given) {
    std::vector<ValueId> result;
    calls.push_back(name);
    for (ValueId value : given) {
      calls.back() += " " + graph.node(graph.value(value).producer).op->name;
      result.push_back(add(b, value, value));
    }
    return result;
  }
  std::vector<ValueId> grad(ValueId value, std::vector<ValueId> wrt) {
    calls.clear();
    const GradientHook hooks[] = {hook};
    auto result = gradient(b, build::sum(b, value), wrt, {.hooks = hooks});
    verify(graph);
    return result;
  }
};

TEST(GradientHooks, HooksReplaceTheGradientsOfOutputsAndThenOfInputs) {
  HookedPart part;
  const ValueId dw = part.grad(part.out, {part.w, part.x})[0];
  EXPECT_EQ(part.calls, (std::vector<std::string>{"outputs broadcast broadcast", "inputs add add"}))
      << "the outputs were given a sum's gradient and zeros, and the inputs a doubled gradient each";
  EXPECT_EQ(
      part.graph.node(part.graph.value(part.graph.node(part.graph.value(dw).producer).inputs[1]).producer).op->name,
      "add")
      << "the product's gradient reads the doubled gradient";
  part.grad(build::mul(part.b, part.x, part.w), {part.x});
  EXPECT_TRUE(part.calls.empty()) << "the loss does not depend on the outputs";
  const ValueId v = part.state("v");
  part.grad(build::mul(part.b, part.out, v), {v});
  EXPECT_TRUE(part.calls.empty()) << "no gradient passes through the part";
  part.grad(part.other, {part.y});
  EXPECT_EQ(part.calls.size(), 2u);
  part.grad(part.out, {part.w});
  EXPECT_EQ(part.calls.size(), 2u) << "the gradients of the inputs are built for the hook";
}

TEST(GradientHooks, InvalidResultsOfHooksAreErrors) {
  HookedPart part;
  const auto error = [&](GradientHook::Replace replace) {
    part.hook.replace_outputs = std::move(replace);
    try {
      part.grad(part.out, {part.x});
      return std::string();
    } catch (const Error& error) { return std::string(error.what()); }
  };
  EXPECT_EQ(error([](auto given) { return std::vector(given.begin(), given.begin() + 1); }),
            "a gradient hook must return 2 gradients, got 1");
  EXPECT_EQ(error([&](auto given) {
              return std::vector{build::sum(part.b, given[0]), given[1]};
            }),
            "gradient 0 that a gradient hook returned is f32[], but the value is f32[4]");
  EXPECT_EQ(error([](auto given) { return std::vector<ValueId>(given.size()); }), "") << "invalid ids are zeros";
}

}  // namespace
}  // namespace karez::ops
