// Sharding equivalence by direct evaluation: every op under every legal sharding, run shard by shard, gives the result
// that it gives on whole tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "tests/evaluate.h"
#include "tests/op_cases.h"
#include "tests/op_shardings.h"
#include "tests/shards.h"

namespace karez::tests {
namespace {

// A check: a case, a mesh, and a sharding per mesh axis.
struct ShardingCase {
  std::size_t which = 0;  // index of the case
  Mesh mesh;
  std::vector<Sharding> shardings;
};

std::vector<Mesh> meshes() {
  std::vector<Mesh> out;
  for (int n = 1; n <= 4; ++n) out.push_back(Mesh::of({{"data", n}}));
  out.push_back(Mesh::of({{"data", 2}, {"model", 2}}));
  return out;
}
// With KAREZ_ALL=1 also these: more devices than elements, and three axes.
std::vector<Mesh> wider_meshes() {
  return {Mesh::of({{"data", 7}}), Mesh::of({{"data", 2}, {"model", 3}}), Mesh::of({{"data", 3}, {"model", 2}}),
          Mesh::of({{"host", 2}, {"data", 2}, {"model", 2}})};
}

NodeView node_of(const Graph& graph) { return {&graph, NodeId(graph.nodes.size() - 1)}; }

std::vector<Layout> layouts(const std::vector<Sharding>& ways, std::vector<Sbp> Sharding::*side, std::size_t count) {
  std::vector<Layout> out(count);
  for (const Sharding& way : ways)
    for (std::size_t i = 0; i < count; ++i) out[i].push_back((way.*side)[i]);
  return out;
}

std::string name_of(const OpCase& c, const ShardingCase& way) {
  return cat(print(c), " on ", print(way.mesh), " as ",
             join(way.shardings, " x ", [](const Sharding& s) { return print(s); }));
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
              ", but on whole tensors ", b);
    }
  });
}

// The contents of operands: numbers of the case, or also special values. Then Partial sums are random summands, or
// (masked) each element is on one device and zero on the others.
enum class Values { plain, special, special_masked };

// True if a Partial sum is an operand of a product: each summand is multiplied with the infinity that the whole is
// multiplied with once, and inf - inf and 0 * inf are NaN. The expression may have a product elsewhere.
bool passes_product(const NodeView& node, const ShardingCase& way) {
  const std::string& name = node.node().op->name;
  const std::string expr = node.attrs().has("expr") ? node.attrs().text("expr") : node.node().op->expr;
  const bool product = name == "matmul" || name.starts_with("conv2d") || expr.find_first_of("*/") != std::string::npos;
  for (const Sharding& s : way.shardings)
    if (product && std::find(s.in.begin(), s.in.end(), P()) != s.in.end()) return true;
  return false;
}

void check(const KernelTable& table, const OpTable& ops, const OpCase& c, const ShardingCase& way,
           std::mt19937_64& random, Values values = Values::plain) {
  Graph graph = graph_of(c, ops);
  const NodeView node = node_of(graph);
  auto inputs = random_inputs(c, random);
  if (values != Values::plain) inputs = with_special_values(std::move(inputs), random);
  const auto expected =
      run_call(table, stored_call(node, node.in_types(), node.out_types(), whole_attrs(node)), inputs);

  const auto in_layouts = layouts(way.shardings, &Sharding::in, node.in_count()),
             out_layouts = layouts(way.shardings, &Sharding::out, node.out_count());
  std::vector<std::vector<HostArray>> held;  // by operand, by device
  for (std::size_t i = 0; i < inputs.size(); ++i)
    held.push_back(shards(inputs[i], way.mesh, in_layouts[i], random, values == Values::special_masked));

  std::vector<std::vector<HostArray>> made(expected.size());  // by result, by device
  for (int p = 0; p < way.mesh.size(); ++p) {
    LocalView view{node, {}, {}};
    std::vector<TensorType> in_types, out_types;
    std::vector<HostArray> in;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      view.in.push_back(oracle_box(inputs[i].shape(), way.mesh, in_layouts[i], p));
      in_types.push_back({inputs[i].dtype(), shape_of(view.in.back())});
      in.push_back(held[i][static_cast<std::size_t>(p)]);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      view.out.push_back(oracle_box(expected[i].shape(), way.mesh, out_layouts[i], p));
      out_types.push_back({expected[i].dtype(), shape_of(view.out.back())});
    }
    auto out = run_call(table, stored_call(node, in_types, out_types, localise(view)), in);
    for (std::size_t i = 0; i < out.size(); ++i) made[i].push_back(std::move(out[i]));
  }
  const bool infinities = !passes_product(node, way);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_equal(assemble(expected[i].type(), way.mesh, out_layouts[i], made[i]), expected[i], infinities);
}

std::vector<ShardingCase> all_sharding_cases(const std::vector<OpCase>& cases, const OpTable& ops,
                                             const std::vector<Mesh>& meshes) {
  std::vector<ShardingCase> out;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Graph graph = graph_of(cases[k], ops);
    for (const Mesh& mesh : meshes)
      for (auto& ways : mesh_shardings(node_of(graph), mesh)) out.push_back({k, mesh, std::move(ways)});
  }
  return out;
}

std::uint64_t seed() {
  const char* given = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = given ? std::stoull(given) : std::random_device()();
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
               std::vector<ShardingCase> ways) {
  const std::uint64_t used = seed();
  std::mt19937_64 random(used);
  if (std::getenv("KAREZ_ALL") != nullptr)
    for (ShardingCase& way : all_sharding_cases(cases, ops, wider_meshes())) ways.push_back(std::move(way));
  for (const ShardingCase& way : ways) {
    const OpCase& c = cases[way.which];
    try {
      check(table, ops, c, way, random);
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << used << ": " << name_of(c, way) << ": " << error.what();
    }
  }
  std::cout << "sharding equivalence: checked " << ways.size() << " of (case, mesh, sharding), " << cases.size()
            << " cases\n";
}

TEST(ShardingEquivalence, ShardsOfEveryOpTogetherEqualTheWhole) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  const auto ways = all_sharding_cases(cases, ops, meshes());
  // The counts are pinned, so that a lost or new sharding of a signature is detected. Verify it before updating.
  std::map<std::string, int> count;
  for (const ShardingCase& way : ways) ++count[cases[way.which].op];
  std::string lines;
  for (const auto& [op, n] : count) lines += cat(op, " ", n, ops.at(op).grad ? ", differentiable" : "", "\n");
  EXPECT_TRUE(golden(lines, shardings_of_each_op));
  check_all(KernelTable(plain_kernels()), ops, cases, ways);
}

// Operands with zeros of both signs, infinities and NaN for every op under every sharding. A gather of split rows gives
// masked sums; without a product they behave as other summands. (Before a product the planner reduces them, see
// karez/passes/sharding/sum_rules.h.)
TEST(ShardingEquivalence, ShardingIsEquivalentForZerosInfinitiesAndNan) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  const KernelTable table{plain_kernels()};
  const std::uint64_t used = seed();
  std::mt19937_64 random(used);
  int all = 0, with_infinities = 0, masked = 0;
  for (const ShardingCase& way : all_sharding_cases(cases, ops, meshes())) {
    const OpCase& c = cases[way.which];
    if (std::none_of(c.in.begin(), c.in.end(), [](const TensorType& type) { return is_float(type.dtype); })) continue;
    const Graph graph = graph_of(c, ops);
    const bool product = passes_product(node_of(graph), way);
    const bool partial = std::any_of(way.shardings.begin(), way.shardings.end(), [](const Sharding& s) {
      return std::find(s.in.begin(), s.in.end(), P()) != s.in.end();
    });
    try {
      check(table, ops, c, way, random, Values::special);
      ++all, with_infinities += !product;
      if (!partial || product) continue;
      check(table, ops, c, way, random, Values::special_masked);
      ++masked;
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << used << ": " << name_of(c, way) << ": " << error.what();
    }
  }
  std::cout << "sharding equivalence: " << all
            << " of (case, mesh, sharding) with special values, infinities compared in " << with_infinities
            << ", masked sums in " << masked << "\n";
  EXPECT_EQ(all, 5098);
  EXPECT_EQ(with_infinities, 4408);
  EXPECT_EQ(masked, 604);
}

// The same in f32 on the fast kernels, with parts of all sizes including 0.
TEST(ShardingEquivalence, ShardingIsEquivalentOnTheFastKernels) {
  const OpTable ops = all_ops();
  std::vector<OpCase> cases;
  for (const OpCase& c : op_cases()) cases.push_back(as_f32(c));
  check_all(KernelTable(cpu_kernels()), ops, cases, all_sharding_cases(cases, ops, meshes()));
}

// Every op must be divisible by some mesh; today there are no exceptions.
TEST(ShardingEquivalence, EveryOpHasAShardingOtherThanBroadcast) {
  const OpTable ops = all_ops();
  const auto cases = op_cases();
  std::set<std::string> divided, all;
  for (const ShardingCase& way : all_sharding_cases(cases, ops, meshes())) {
    all.insert(cases[way.which].op);
    for (const Sharding& s : way.shardings)
      for (const auto* side : {&s.in, &s.out})
        for (Sbp sbp : *side)
          if (!sbp.is_broadcast()) divided.insert(cases[way.which].op);
  }
  for (const std::string& op : all) EXPECT_TRUE(divided.contains(op)) << op << " has only the sharding Broadcast";
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
