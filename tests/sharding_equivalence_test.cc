// Tests of sharding equivalence by direct evaluation: every op that is run shard by shard, under every legal sharding,
// gives the result that it gives on unsplit tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/graph/test_shardings.h"
#include "tests/evaluate.h"
#include "tests/op_cases.h"
#include "tests/op_shardings.h"
#include "tests/shards.h"

namespace karez::tests {
namespace {

// A combination to check: a case, a mesh, and a sharding per mesh axis.
struct ShardingCase {
  std::size_t case_index = 0;  // in the list of cases
  Mesh mesh;
  std::vector<Sharding> shardings;
};

std::vector<Mesh> meshes() {
  std::vector<Mesh> out;
  for (int n = 1; n <= 4; ++n) out.push_back(Mesh::of({{"data", n}}));
  out.push_back(Mesh::of({{"data", 2}, {"model", 2}}));
  return out;
}
// The additional meshes of runs with KAREZ_ALL=1: more devices than elements, and three axes.
std::vector<Mesh> wider_meshes() {
  return {Mesh::of({{"data", 7}}), Mesh::of({{"data", 2}, {"model", 3}}), Mesh::of({{"data", 3}, {"model", 2}}),
          Mesh::of({{"host", 2}, {"data", 2}, {"model", 2}})};
}

NodeView node_of(const Graph& graph) { return {&graph, NodeId(graph.nodes.size() - 1)}; }

std::vector<Layout> layouts(const std::vector<Sharding>& sharding_cases, std::vector<Sbp> Sharding::*sides,
                            std::size_t count) {
  std::vector<Layout> out(count);
  for (const Sharding& sharding_case : sharding_cases)
    for (std::size_t i = 0; i < count; ++i) out[i].push_back((sharding_case.*sides)[i]);
  return out;
}

std::string name_of(const OpCase& c, const ShardingCase& sharding_case) {
  return cat(print(c), " on ", print(sharding_case.mesh), " as ",
             join(sharding_case.shardings, " x ", [](const Sharding& s) { return print(s); }));
}

// Floats must agree within 1e-12 (f32: 1e-5, because each summand is rounded) of the largest value, other types bit for
// bit. NaN must be NaN, and an infinity must be equal unless `infinities` is false.
void expect_equal(const HostArray& got, const HostArray& expected, bool infinities = true) {
  with_type(expected.dtype(), [&]<class T>() {
    double scale = 1;
    if constexpr (std::is_floating_point_v<T>)
      for (T x : expected.data<T>())
        if (std::isfinite(x)) scale = std::max(scale, std::abs(static_cast<double>(x)));
    for (std::size_t e = 0; e < got.data<T>().size(); ++e) {
      const T a = got.data<T>()[e], b = expected.data<T>()[e];
      if (a == b || (a != a && b != b)) continue;
      if (!infinities && std::isinf(static_cast<double>(b))) continue;
      const double tolerance = std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 1e-5 : 0;
      require(std::abs(static_cast<double>(a) - static_cast<double>(b)) <= tolerance * scale, "element ", e, " is ", a,
              ", but on unsplit tensors it is ", b);
    }
  });
}

// The contents of operands: the numbers of the case, or also special values. With special values, the summands of
// Partial sums are random, or masked: each element is on one device, and zero on the others.
enum class Values { plain, special, special_masked };

// Returns whether a Partial sum may be an operand of a product. The product then multiplies each summand by an
// infinity, and the result may be NaN (inf - inf or 0 * inf) although the product of the sum is infinite. In an
// expression with a product, every operand counts.
bool passes_product(const NodeView& node, const ShardingCase& sharding_case) {
  const std::string& name = node.node().op->name;
  const std::string expr = node.attrs().has("expr") ? node.attrs().text("expr") : node.node().op->expr;
  const bool product = name == "matmul" || name.starts_with("conv2d") || expr.find_first_of("*/") != std::string::npos;
  for (const Sharding& s : sharding_case.shardings)
    if (product && std::find(s.in.begin(), s.in.end(), P()) != s.in.end()) return true;
  return false;
}

void check(const KernelTable& table, const OpTable& ops, const OpCase& c, const ShardingCase& sharding_case,
           std::mt19937_64& random, Values values = Values::plain) {
  Graph graph = graph_of(c, ops);
  const NodeView node = node_of(graph);
  auto inputs = random_inputs(c, random);
  if (values != Values::plain) inputs = with_special_values(std::move(inputs), random);
  const auto expected =
      run_call(table, stored_call(node, node.in_types(), node.out_types(), whole_attrs(node)), inputs);

  const auto in_layouts = layouts(sharding_case.shardings, &Sharding::in, node.in_count()),
             out_layouts = layouts(sharding_case.shardings, &Sharding::out, node.out_count());
  std::vector<std::vector<HostArray>> shards_by_operand;  // by operand, by device
  for (std::size_t i = 0; i < inputs.size(); ++i)
    shards_by_operand.push_back(
        shards(inputs[i], sharding_case.mesh, in_layouts[i], random, values == Values::special_masked));

  std::vector<std::vector<HostArray>> results(expected.size());  // by result, by device
  for (int p = 0; p < sharding_case.mesh.size(); ++p) {
    LocalView view{node, {}, {}};
    std::vector<TensorType> in_types, out_types;
    std::vector<HostArray> in;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      view.in.push_back(oracle_box(inputs[i].shape(), sharding_case.mesh, in_layouts[i], p));
      in_types.push_back({inputs[i].dtype(), shape_of(view.in.back())});
      in.push_back(shards_by_operand[i][static_cast<std::size_t>(p)]);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      view.out.push_back(oracle_box(expected[i].shape(), sharding_case.mesh, out_layouts[i], p));
      out_types.push_back({expected[i].dtype(), shape_of(view.out.back())});
    }
    auto out = run_call(table, stored_call(node, in_types, out_types, localise(view)), in);
    for (std::size_t i = 0; i < out.size(); ++i) results[i].push_back(std::move(out[i]));
  }
  const bool infinities = !passes_product(node, sharding_case);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_equal(assemble(expected[i].type(), sharding_case.mesh, out_layouts[i], results[i]), expected[i], infinities);
}

std::vector<ShardingCase> all_sharding_cases(const std::vector<OpCase>& cases, const OpTable& ops,
                                             const std::vector<Mesh>& meshes) {
  std::vector<ShardingCase> out;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Graph graph = graph_of(cases[k], ops);
    for (const Mesh& mesh : meshes)
      for (auto& sharding_cases : mesh_shardings(node_of(graph), mesh))
        out.push_back({k, mesh, std::move(sharding_cases)});
  }
  return out;
}

std::uint64_t seed() {
  const char* seed_text = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = seed_text ? std::stoull(seed_text) : std::random_device()();
  std::cout << "KAREZ_SEED=" << seed << "\n";
  return seed;
}

TEST(ShardingEquivalence, EveryComputedOpHasACase) {
  const OpTable ops = all_ops();
  std::set<std::string> covered;
  for (const OpCase& c : op_cases()) covered.insert(c.op);
  for (const OpDef* op : ops.rows())
    EXPECT_NE(covered.contains(op->name), !why_not_computed(op->name).empty()) << op->name;
}

void check_all(const KernelTable& table, const OpTable& ops, const std::vector<OpCase>& cases,
               std::vector<ShardingCase> sharding_cases) {
  const std::uint64_t random_seed = seed();
  std::mt19937_64 random(random_seed);
  if (std::getenv("KAREZ_ALL") != nullptr)
    for (ShardingCase& sharding_case : all_sharding_cases(cases, ops, wider_meshes()))
      sharding_cases.push_back(std::move(sharding_case));
  for (const ShardingCase& sharding_case : sharding_cases) {
    const OpCase& c = cases[sharding_case.case_index];
    try {
      check(table, ops, c, sharding_case, random);
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << random_seed << ": " << name_of(c, sharding_case) << ": " << error.what();
    }
  }
  std::cout << "sharding equivalence: checked " << sharding_cases.size()
            << " combinations of case, mesh and sharding, of " << cases.size() << " cases\n";
}

TEST(ShardingEquivalence, ShardsOfEveryOpTogetherEqualTheUnsplitResult) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  const auto sharding_cases = all_sharding_cases(cases, ops, meshes());
  // The counts are pinned, so that a lost or new sharding of a signature is detected. Check the change before updating.
  std::map<std::string, int> count;
  for (const ShardingCase& sharding_case : sharding_cases) ++count[cases[sharding_case.case_index].op];
  std::string lines;
  for (const auto& [op, n] : count) lines += cat(op, " ", n, ops.at(op).grad ? ", differentiable" : "", "\n");
  EXPECT_TRUE(golden(lines, shardings_of_each_op));
  check_all(KernelTable(plain_kernels()), ops, cases, sharding_cases);
}

// Tests every op under every sharding on operands with zeros of both signs, infinities and NaN. A gather of split rows
// gives masked sums; without a product they behave as other summands. (Before a product the planner reduces them, see
// karez/passes/sharding/sum_rules.h.)
TEST(ShardingEquivalence, ShardingIsEquivalentForZerosInfinitiesAndNan) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  const KernelTable table{plain_kernels()};
  const std::uint64_t random_seed = seed();
  std::mt19937_64 random(random_seed);
  int case_count = 0, with_infinities = 0, masked = 0;
  for (const ShardingCase& sharding_case : all_sharding_cases(cases, ops, meshes())) {
    const OpCase& c = cases[sharding_case.case_index];
    if (std::none_of(c.in.begin(), c.in.end(), [](const TensorType& type) { return is_float(type.dtype); })) continue;
    const Graph graph = graph_of(c, ops);
    const bool product = passes_product(node_of(graph), sharding_case);
    const bool partial =
        std::any_of(sharding_case.shardings.begin(), sharding_case.shardings.end(),
                    [](const Sharding& s) { return std::find(s.in.begin(), s.in.end(), P()) != s.in.end(); });
    try {
      check(table, ops, c, sharding_case, random, Values::special);
      ++case_count, with_infinities += !product;
      if (!partial || product) continue;
      check(table, ops, c, sharding_case, random, Values::special_masked);
      ++masked;
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << random_seed << ": " << name_of(c, sharding_case) << ": " << error.what();
    }
  }
  std::cout << "sharding equivalence: " << case_count
            << " combinations of case, mesh and sharding with special values, infinities compared in "
            << with_infinities << ", masked sums in " << masked << "\n";
  EXPECT_TRUE(pinned(case_count, 5235));
  EXPECT_TRUE(pinned(with_infinities, 4545));
  EXPECT_TRUE(pinned(masked, 652));
}

// Runs the same combinations in f32 on the fast kernels. Parts have all sizes, including 0.
TEST(ShardingEquivalence, ShardingIsEquivalentOnTheFastKernels) {
  const OpTable ops = all_ops();
  std::vector<OpCase> cases;
  for (const OpCase& c : op_cases()) cases.push_back(as_f32(c));
  check_all(KernelTable(cpu_kernels()), ops, cases, all_sharding_cases(cases, ops, meshes()));
}

// Every op must have a sharding that splits or partially sums an operand or a result.
TEST(ShardingEquivalence, EveryOpHasAShardingOtherThanBroadcast) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  std::set<std::string> split_ops, all_ops_with_cases;
  for (const ShardingCase& sharding_case : all_sharding_cases(cases, ops, meshes())) {
    all_ops_with_cases.insert(cases[sharding_case.case_index].op);
    for (const Sharding& s : sharding_case.shardings)
      for (const auto* sides : {&s.in, &s.out})
        for (Sbp sbp : *sides)
          if (!sbp.is_broadcast()) split_ops.insert(cases[sharding_case.case_index].op);
  }
  for (const std::string& op : all_ops_with_cases)
    EXPECT_TRUE(split_ops.contains(op)) << op << " has only the sharding Broadcast";
}

// Wrong summands and wrong pieces must be detected, otherwise the tests above could not fail.
TEST(ShardingEquivalence, AWrongPieceIsDetected) {
  std::mt19937_64 random(1);
  const Mesh mesh = Mesh::of({{"data", 2}});
  const HostArray x = HostArray::of<double>({3}, {1, 2, 3});
  auto pieces = shards(x, mesh, {B()}, random);
  EXPECT_NO_THROW(assemble(x.type(), mesh, {B()}, pieces));
  pieces[1] = HostArray::of<double>({3}, {1, 2, 4});
  EXPECT_THROW(assemble(x.type(), mesh, {B()}, pieces), Error);
  EXPECT_THROW(assemble(x.type(), mesh, {S(0)}, pieces), Error);
  pieces = shards(x, mesh, {P()}, random);
  EXPECT_NO_THROW(expect_equal(assemble(x.type(), mesh, {P()}, pieces), x));
  pieces[0].data<double>()[2] += 1e-9;
  EXPECT_THROW(expect_equal(assemble(x.type(), mesh, {P()}, pieces), x), Error);
}

TEST(ShardingEquivalence, SummandsReduceToTheirValue) {
  std::mt19937_64 random(2);
  const Mesh mesh = Mesh::of({{"data", 2}, {"model", 2}});
  const HostArray x = HostArray::of<std::int64_t>({5}, {1, -2, 3, 0, 9});
  for (Layout layout : {Layout{P(), P()}, Layout{P(), S(0)}, Layout{S(0), S(0)}, Layout{B(), P(Reduce::max)},
                        Layout{P(Reduce::min), P(Reduce::min)}})
    EXPECT_NO_THROW(expect_equal(assemble(x.type(), mesh, layout, shards(x, mesh, layout, random)), x))
        << print(layout);
}

}  // namespace
}  // namespace karez::tests
