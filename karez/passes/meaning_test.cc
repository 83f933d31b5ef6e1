// Tests that the plans of random training steps, run on every device by a small interpreter, compute the same values as
// the graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "karez/passes/compile.h"
#include "karez/passes/test_interpreter.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// Draws a random training step over f64[5, 6] (or another shape with 6 columns). It has windows, products, sums,
// updates (in place or not), reads of the old and new versions of variables, and layouts that are fixed at random.
Graph random_step(std::mt19937_64& random, const Mesh& mesh, const Shape& shape = {5, 6}, int steps = 14) {
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, table());
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<ValueId> pool;
  auto random_layout = [&] {
    Layout layout;
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      layout.push_back(below(3) == 0 ? B() : S(static_cast<int>(below(2))));
    return layout;
  };
  for (const char* name : {"x", "y"})
    pool.push_back(below(2) ? build::array_input(b, name, {DType::f64, shape}, random_layout())
                            : build::input(b, name, {DType::f64, shape}));
  ValueId learning_rate = build::input(b, "lr", {DType::f64, {}}), bias = build::input(b, "bias", {DType::f64, {6}});
  for (const char* name : {"u", "v", "w", "m.u", "m.v", "m.w"})
    pool.push_back(testing::parameter(b, name, {DType::f64, shape}));
  auto any = [&] { return pool[below(pool.size())]; };
  auto fix_some = [&](ValueId value) {
    auto layouts = mesh_shardings({&graph, graph.value(value).producer}, mesh);
    if (layouts.empty() || below(4) != 0) return value;
    const auto& sharding_of_axes = layouts[below(layouts.size())];
    Layout layout;
    for (const Sharding& axis : sharding_of_axes)
      layout.push_back(axis.out[static_cast<std::size_t>(graph.value(value).output)]);
    // The result of a product may be partial only if an operand is partial.
    const bool sum = std::find(layout.begin(), layout.end(), P()) != layout.end();
    if (!sum || graph.node(graph.value(value).producer).op->name != "mul") graph.value(value).layout = layout;
    return value;
  };
  std::vector<std::size_t> free = {0, 1, 2};
  for (int step = 0; step < steps; ++step) {
    ValueId x = any(), y = any();
    switch (below(11)) {
      case 0:
        pool.push_back(fix_some(build::matmul(b, fix_some(build::matmul(b, x, y, {.transpose_b = true})), any())));
        break;
      case 1: {
        ValueId product = build::matmul(b, build::matmul(b, x, y, {.transpose_b = true}), any());
        ValueId sum = fix_some(build::add(b, product, build::broadcast(b, bias, shape, {1})));
        pool.push_back(below(2) ? build::relu(b, sum) : sum);
        break;
      }
      case 2: pool.push_back(build::broadcast(b, fix_some(build::reduce_sum(b, x, {0})), shape, {1})); break;
      case 3: pool.push_back(build::broadcast(b, fix_some(build::reduce_max(b, x, {1})), shape, {0})); break;
      case 4: pool.push_back(build::reshape(b, build::transpose(b, x, {1, 0}), shape)); break;
      case 5:
        pool.push_back(
            build::pad(b, build::slice(b, x, {1, 2}, {3, 3}), {1, 0}, {shape[0] - 4, 3}, below(2) ? 0.0 : 0.5));
        break;
      case 6: pool.push_back(fix_some(build::tanh(b, x))); break;
      case 7: pool.push_back(fix_some(build::mul(b, x, y))); break;
      case 8: {
        if (free.empty()) break;
        std::size_t v = free.back();
        free.pop_back();
        auto next =
            build::sgd(b, graph.variables[v].read, graph.variables[v + 3].read, x, learning_rate, {.momentum = 0.9});
        graph.variables[v].updated = next.w, graph.variables[v + 3].updated = next.m;
        if (below(3) == 0) pool.push_back(below(2) ? next.w : next.m);
        break;
      }
      default: pool.push_back(fix_some(build::add(b, x, y))); break;
    }
  }
  for (std::size_t v : free)
    if (below(2)) graph.variables[v].updated = any();  // an assignment, perhaps of another variable or of itself
  graph.outputs = {{"a", any()}, {"b", pool.back()}};
  for (Output& output : graph.outputs)
    if (below(2)) output.layout = random_layout();
  return graph;
}

// Compiles and runs the graph, and compares its results with those of the evaluator. Returns false if the graph cannot
// be compiled. With `few_passes`, some passes are switched off. With `buckets`, messages are expensive, and *buckets
// counts the plans in which some all_reduces are bucketed. Every second seed merges reductions of rows.
bool check(const Graph& graph, std::uint64_t seed, bool few_passes, int microbatches = 1, int* buckets = nullptr) {
  auto expected = testing::evaluate_graph(graph);
  Compilation c = testing::compilation(graph);
  testing::AnyCatalog catalog;
  catalog.rows = seed % 2 == 1;
  c.catalog = &catalog;
  if (buckets != nullptr) c.options.costs.link = {1e-2, 1e-4};
  if (few_passes) c.options.off = {"canonicalise", "fuse", "in_place"};
  c.options.microbatches = microbatches;
  try {
    compile(c);
  } catch (const Error& error) {
    // Random layouts may contradict each other, and some steps need the whole batch; every other error is a defect.
    using ::testing::HasSubstr;
    const auto no_choice = HasSubstr("shard: every choice of layouts that was tried requires a value in more than 16");
    const auto impossible_layout = ::testing::AnyOf(no_choice, HasSubstr(" cannot produce f64["));
    if (microbatches == 1) EXPECT_THAT(error.what(), no_choice) << print(graph);
    else
      EXPECT_THAT(error.what(), ::testing::AnyOf(impossible_layout, HasSubstr(cat("microbatches=", microbatches))))
          << print(graph);
    return false;
  }
  if (buckets != nullptr) *buckets += testing::count_op(c.graph, "concat") > 0;
  testing::Interpreter run(c.plan, seed);
  std::map<std::string, testing::Array> inputs;
  for (const Node& node : graph.nodes)
    if (node.op->name == "input")
      inputs[node.attrs.text("name")] =
          testing::random_array(node.attrs.text("name"), graph.type(node.outputs[0]).shape);
  auto variable_of = [&](const Block& block) -> const Variable& {
    return *std::find_if(c.graph.variables.begin(), c.graph.variables.end(),
                         [&](const Variable& v) { return v.name == block.name; });
  };
  auto each_element = [&](const Block& block, auto body) {  // calls body(position in the block, logical index)
    const Variable& variable = variable_of(block);
    Box box = local_box(variable.type.shape, c.graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored,
                        block.device.index);
    std::size_t i = 0;
    for_each_index(shape_of(box), [&](std::vector<std::int64_t> index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] += box[d].begin;
      body(i++, index);
    });
  };
  for (BlockId k : c.plan.blocks.ids()) {
    if (c.plan.blocks[k].kind != BlockKind::variable) continue;
    testing::Array variable_value =
        testing::random_array(c.plan.blocks[k].name, variable_of(c.plan.blocks[k]).type.shape);
    each_element(c.plan.blocks[k],
                 [&](std::size_t i, const auto& index) { run.block(k)[i] = at(variable_value, index); });
  }
  run.launch(inputs);
  for (const Output& output : graph.outputs) {
    const testing::Array &result = run.outputs.at(output.name), &expected_result = expected.at("output " + output.name);
    EXPECT_EQ(result.shape, expected_result.shape);
    for (std::size_t i = 0; i < result.data.size() && !::testing::Test::HasFailure(); ++i)
      EXPECT_NEAR(result.data[i], expected_result.data[i], 1e-9 * std::max(1.0, std::abs(expected_result.data[i])))
          << output.name << " KAREZ_SEED=" << seed << "\n"
          << print(c.graph) << print(c.plan);
  }
  for (BlockId k : c.plan.blocks.ids()) {
    const Block& block = c.plan.blocks[k];
    if (block.kind != BlockKind::variable) continue;
    auto found = expected.find("variable " + block.name);
    testing::Array expected_result =
        found != expected.end() ? found->second : testing::random_array(block.name, variable_of(block).type.shape);
    each_element(block, [&](std::size_t i, const auto& index) {
      double expected_element = at(expected_result, index), result = run.block(k)[i];
      if (::testing::Test::HasFailure()) return;
      EXPECT_NEAR(result, expected_element, 1e-9 * std::max(1.0, std::abs(expected_element)))
          << block.name << " KAREZ_SEED=" << seed << "\n"
          << print(c.graph) << print(c.plan);
    });
  }
  return true;
}

TEST(Meaning, PlansOfRandomStepsComputeTheValuesOfTheirGraphsOnEveryMeshInAnyOrderOfActs) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 4242;
  RecordProperty("seed", std::to_string(seed));
  const char* meshes[] = {"", "data=2", "data=3", "data=2,model=2"};
  int compared = 0;
  for (std::uint64_t round = 0; round < 120; ++round) {
    std::mt19937_64 random(seed + round);
    Mesh mesh = Mesh::parse(meshes[random() % 4]);
    Graph graph = random_step(random, mesh);
    verify(graph);
    compared += check(graph, seed + round, round % 4 == 0);
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
  }
  EXPECT_GT(compared, 60) << "most random layouts should be possible";
}

// Adds sums over rows that the first axis splits, so that the sums are Partial; some have a consumer.
void add_sums(Graph& graph, std::mt19937_64& random) {
  Builder b(graph, table());
  Layout rows = broadcast_layout(graph.meshes[0]);
  rows[0] = S(0);
  for (int i = 0; i < 4; ++i) {
    const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % 5);
    const ValueId x = build::input(b, cat("rows", i), {DType::f64, {7, columns}});
    graph.value(x).layout = rows;
    ValueId sum = build::reduce_sum(b, x, {0});
    if (random() % 2) sum = build::tanh(b, sum);
    graph.outputs.push_back({cat("sum", i), sum});
  }
}

TEST(Meaning, PlansOfRandomStepsComputeTheValuesOfTheirGraphsIfSumsAreBucketed) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 31;
  RecordProperty("seed", std::to_string(seed));
  const char* meshes[] = {"data=2", "data=3", "data=2,model=2"};
  int compared = 0, buckets = 0;
  for (std::uint64_t round = 0; round < 16; ++round) {
    std::mt19937_64 random(seed + round);
    Graph graph = random_step(random, Mesh::parse(meshes[random() % 3]));
    add_sums(graph, random);
    compared += check(graph, seed + round, round % 4 == 0, 1, &buckets);
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
  }
  EXPECT_GT(compared, 6);
  EXPECT_GT(buckets, 4) << "plans with buckets, of " << compared << " plans";
}

// A random step is either rejected, or computes the same values with micro-batches in any order of acts. It may be
// rejected because a layout that is fixed for a whole value is impossible for a micro-batch.
TEST(Meaning, PlansOfRandomStepsComputeTheValuesOfTheirGraphsInMicroBatches) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 977;
  RecordProperty("seed", std::to_string(seed));
  const char* meshes[] = {"", "data=2", "data=3", "data=2,model=2"};
  int compared = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::mt19937_64 random(seed + round);
    Mesh mesh = Mesh::parse(meshes[random() % 4]);
    const int microbatches = 2 + static_cast<int>(random() % 3);
    Graph graph = random_step(random, mesh, {12, 6}, 3 + static_cast<int>(random() % 6));
    verify(graph);
    compared += check(graph, seed + round, round % 4 == 0, microbatches);
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round << " microbatches=" << microbatches;
  }
  EXPECT_GT(compared, 80) << "most random steps should be possible";
}

// Two placements of different shapes in one graph, on disjoint or overlapping devices: each value's layout refers to
// its own mesh.
TEST(Meaning, OneGraphMayHaveValuesOnSeveralMeshes) {
  for (int overlap = 0; overlap < 2; ++overlap) {
    Mesh two_devices = Mesh::parse("data=2"), three_devices = Mesh::parse("model=3");
    for (int d = 0; d < 3; ++d) three_devices.devices[static_cast<std::size_t>(d)] = {0, 2 - overlap + d};
    Graph graph;
    graph.meshes = {two_devices, three_devices};
    Builder b(graph, table());
    std::map<std::string, testing::Array> inputs;
    for (int m = 0; m < 2; ++m) {
      b.mesh = m;
      std::string suffix = m == 0 ? "0" : "1";
      ValueId x = build::input(b, "x" + suffix, {DType::f64, {5, 6}}),
              y = build::input(b, "y" + suffix, {DType::f64, {6, 4}});
      graph.value(x).layout = Layout{S(0)}, graph.value(y).layout = Layout{B()};
      ValueId product = build::matmul(b, x, y);
      graph.value(product).layout = Layout{S(0)};
      ValueId sums = build::reduce_sum(b, product, {0, 1});
      graph.value(sums).layout = Layout{P()};
      graph.outputs.push_back({"product" + suffix, product}), graph.outputs.push_back({"sums" + suffix, sums});
      inputs["x" + suffix] = testing::random_array("x" + suffix, {5, 6}),
                   inputs["y" + suffix] = testing::random_array("y" + suffix, {6, 4});
    }
    auto expected = testing::evaluate_graph(graph);
    Compilation c = testing::compilation(graph);
    compile(c);
    EXPECT_EQ(c.plan.devices.size(), overlap ? 4u : 5u);
    EXPECT_EQ(c.plan.communicators.size(), 2u);
    testing::Interpreter run(c.plan, 3);
    run.launch(inputs);
    for (const Output& output : graph.outputs) {
      const testing::Array &result = run.outputs.at(output.name),
                           &expected_result = expected.at("output " + output.name);
      ASSERT_EQ(result.data.size(), expected_result.data.size());
      for (std::size_t i = 0; i < result.data.size(); ++i)
        EXPECT_NEAR(result.data[i], expected_result.data[i], 1e-12) << output.name;
    }
  }
}

TEST(Meaning, EachRankFetchesOnlyTheOutputsThatItsDevicesHold) {
  Mesh local_mesh = Mesh::parse("data=2"), remote_mesh = Mesh::parse("data=2");
  for (int d = 0; d < 2; ++d) remote_mesh.devices[static_cast<std::size_t>(d)] = {1, d};
  Graph graph;
  graph.meshes = {local_mesh, remote_mesh};
  Builder b(graph, table());
  graph.outputs.push_back({"a", build::exp(b, build::input(b, "x", {DType::f64, {4}}))});
  b.mesh = 1;
  graph.outputs.push_back({"b", build::exp(b, build::input(b, "y", {DType::f64, {4}}))});
  for (int rank : {0, 1}) {
    Compilation c = testing::compilation(graph);
    c.options.rank = rank;
    c.options.world = 2;
    compile(c);
    int bound_actors = 0;
    for (const plan::Actor& actor : c.plan.actors)
      if (!actor.binding.empty()) {
        EXPECT_EQ(actor.binding,
                  actor.body == plan::BodyKind::fetch ? (rank == 0 ? "a" : "b") : (rank == 0 ? "x" : "y"));
        ++bound_actors;
      }
    EXPECT_EQ(bound_actors, 3) << "expected one input and two parts of one output";
  }
}

}  // namespace
}  // namespace karez::passes
