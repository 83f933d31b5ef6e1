// Tests of the user's layout rules: the variables that they match, the layouts that they fix, and rules that are
// errors.
#include "karez/passes/sharding/layout_rules.h"

#include <gtest/gtest.h>

#include <functional>

#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(LayoutRules, RulesFixTheLayoutsOfParameters) {
  auto rules = [](std::vector<LayoutRule> list, const char* mesh = "data=2,model=2") {
    Graph graph = testing::mlp_step(Mesh::parse(mesh), {12, 8, 4}, 4);
    apply_rules(graph, list);
    return graph;
  };
  Graph graph = rules({{"fc1.weight", {"model", "data"}}, {"fc2.weight", {"data+model"}}});
  EXPECT_EQ(print(*graph.variables[0].stored), "(S(1), S(0))");
  EXPECT_EQ(print(*graph.variables[2].stored), "(S(0), S(0))");
  EXPECT_FALSE(graph.variables[1].stored);
  auto error = [&](std::vector<LayoutRule> list) { return error_of([&] { rules(std::move(list)); }); };
  EXPECT_EQ(error({{"fc1.weight", {"modle"}}}), "mesh: unknown axis 'modle'; expected one of: data, model");
  EXPECT_EQ(error({{"fc1.bias", {"model", "data"}}}),
            "rule 'fc1.bias' for fc1.bias, f32[8], names 2 dimensions, but the rank is 1");
  EXPECT_EQ(error({{"fc9.*", {"model"}}}),
            "rule 'fc9.*' matches no parameter; there are 8: fc1.bias, fc2.bias, fc1.weight, fc2.weight, m.fc1.bias, "
            "m.fc2.bias, m.fc1.weight, "
            "m.fc2.weight");
  EXPECT_EQ(error({{"fc[1", {"model"}}}), "pattern 'fc[1': '[' at character 3 is not closed");
  Graph from_the_end = rules({{"*.bias", {}, {{"model", -1}}}, {"fc?.weight", {}, {{"data", 0}, {"model", -1}}}});
  EXPECT_EQ(print(*from_the_end.variables[0].stored), "(S(0), S(1))") << "negative dimensions count from the end";
  EXPECT_EQ(print(*from_the_end.variables[1].stored), "(B, S(0))");
  EXPECT_EQ(
      error({{"fc1.bias", {}, {{"model", -2}}}}),
      "rule 'fc1.bias' for fc1.bias, f32[8], splits dimension -2 on the mesh axis 'model'; the rank is 1: use 0 or "
      "-1");
  EXPECT_EQ(error({{"fc1.bias", {"model"}, {{"model", 0}}}}),
            "rule 'fc1.bias' for fc1.bias, f32[8], lists both dimensions and mesh axes; give only one of them");
  Graph by_module = rules({{"fc1", {"model"}}, {"**.fc2.{weight,bias}", {"data"}}});
  EXPECT_TRUE(by_module.variables[0].stored && by_module.variables[1].stored)
      << "a module stands for all variables below it";
  EXPECT_TRUE(by_module.variables[2].stored && by_module.variables[3].stored && by_module.variables[6].stored)
      << "a pattern with ** matches at any depth";
  EXPECT_FALSE(by_module.variables[4].stored) << "m.fc1.weight is not below fc1";
  EXPECT_EQ(error({{"fc1.*", {"model"}}, {"fc1.weight", {"model", ""}}}), "no error")
      << "repeating the same layout is not an error";
  EXPECT_EQ(
      error({{"fc1.*", {"model"}}, {"*.weight", {"data"}}}),
      "rule '*.weight' requires fc1.weight as f32[8@data, 12], but an earlier rule or compiled function stored it as "
      "f32[8@model, 12]");
  EXPECT_EQ(error({{"fc1.weight", {"model", "model"}}}),
            "rule 'fc1.weight' for fc1.weight, f32[8, 12], names the mesh axis 'model' twice; an axis can split only "
            "one dimension");
}

TEST(LayoutRules, ALayoutThatSplitsADimensionOfOneElementIsAnError) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=4")};
  Builder b(graph, testing::table());
  b.where = "net.cc:7";
  graph.outputs.push_back({"w", testing::parameter(b, "w", {DType::f32, {1, 8}})});
  LayoutRule rule{"w", {"data"}};
  apply_rules(graph, std::span(&rule, 1));
  Compilation c = testing::compilation(graph);
  EXPECT_EQ(
      error_of([&] { run_passes(c, {"shard"}); }),
      "variable at net.cc:7 cannot produce f32[1, 8] in the layout (S(0)) on mesh(data=4); it can produce (S(1)), (B)");
}

TEST(LayoutRules, RulesWithAPatternSkipVariablesWithoutDimensions) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=2")};
  Builder b(graph, testing::table());
  testing::parameter(b, "bn.weight", {DType::f32, {4}});
  testing::parameter(b, "bn.step", {DType::i64, {}});
  for (const char* pattern : {"*", "bn.*", "bn"}) {
    Graph with_rules = graph;
    apply_rules(with_rules, std::vector<LayoutRule>{{pattern, {"data"}}});
    EXPECT_EQ(print(*with_rules.variables[0].stored), "(S(0))") << pattern;
    EXPECT_FALSE(with_rules.variables[1].stored) << pattern;
  }
  auto error = [&](const char* pattern) {
    return error_of([&] { apply_rules(graph, std::vector<LayoutRule>{{pattern, {"data"}}}); });
  };
  EXPECT_EQ(error("*.step"), "rule '*.step' splits dimensions, but matches only variables without dimensions: bn.step");
  EXPECT_EQ(error("bn.step"), "rule 'bn.step' for bn.step, i64[], names 1 dimension, but the rank is 0");
}

TEST(LayoutRules, RulesApplyToTheMeshOfTheirVariable) {
  Graph graph;
  graph.meshes = {Mesh::parse("a=2"), Mesh::parse("b=2,c=2")};
  Builder b(graph, testing::table());
  b.mesh = 1;
  testing::parameter(b, "w", {DType::f32, {4, 4}});
  graph.variables[0].mesh = 1;
  apply_rules(graph, std::vector<LayoutRule>{{"w", {"c", "b"}}});
  EXPECT_EQ(print(*graph.variables[0].stored), "(S(1), S(0))");
}

}  // namespace
}  // namespace karez::passes
