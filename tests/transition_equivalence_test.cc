// Tests of transition equivalence with the collectives of the engine: a tensor keeps its logical value through any
// sequence of layouts, and each device has its part of the tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/data/array_source.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/build.h"
#include "karez/passes/compile.h"
#include "karez/passes/lowering/call.h"
#include "karez/runtime/session.h"
#include "tests/shards.h"

namespace karez::tests {
namespace {

// A random walk: x -> copy (with the first layout) -> copy (with the second) -> ... -> output. A stop that is not
// Partial is assigned to a variable of that layout, so that the bytes of each device can be read. (If all stops were
// outputs, all_gather would be used for most of them.)
struct Walk {
  TensorType type;
  Mesh mesh;
  std::vector<Layout> stops;
};

std::string print(const Walk& walk) {
  return cat(walk.type, " on ", print(walk.mesh), " over ",
             join(walk.stops, " ", [](const Layout& layout) { return print(layout); }));
}

Layout random_layout(const TensorType& type, const Mesh& mesh, std::mt19937_64& random) {
  const Reduce kind = static_cast<Reduce>(
      has_partial_sums(type.dtype) ? random() % 3 : 1 + random() % 2);  // bools and halves have no partial sums
  Layout out;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const auto choice = static_cast<int>(random() % static_cast<std::uint64_t>(type.rank() + 2));
    const bool is_split = choice < type.rank() &&
                          type.shape[static_cast<std::size_t>(choice)] != 1;  // a dimension of size 1 is not split
    out.push_back(is_split ? S(choice) : choice <= type.rank() ? B() : P(kind));
  }
  return out;
}

bool is_partial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(), [](Sbp sbp) { return sbp.is_partial(); });
}

Graph graph_of(const Walk& walk, const OpTable& ops) {
  Graph graph;
  graph.meshes = {walk.mesh};
  Builder b(graph, ops);
  b.where = "transition_equivalence.cc:1";
  ValueId x = build::input(b, "x", walk.type);
  for (std::size_t i = 0; i < walk.stops.size(); ++i) {
    x = b.one("copy", {x});
    graph.value(x).layout = walk.stops[i];
    if (is_partial(walk.stops[i])) continue;
    const std::string name = cat("v", i);
    ValueId read = build::variable(b, name, walk.type);
    graph.variables.push_back(
        {.name = name, .type = walk.type, .mesh = 0, .stored = walk.stops[i], .read = read, .updated = x});
  }
  graph.outputs.push_back({"y", x});
  return graph;
}

// Makes whole numbers, or bools, so that sums are exact in every type and results can be compared bit for bit.
HostArray numbers(const TensorType& type, std::mt19937_64& random) {
  HostArray out(type);
  with_type(type.dtype, [&]<class T>() {
    for (T& x : out.data<T>()) {
      if constexpr (std::is_same_v<T, bool>) x = random() % 2 == 1;
      else x = static_cast<T>(static_cast<int>(random() % 201) - 100);
    }
  });
  return out;
}

void expect_bits(const HostArray& actual, const HostArray& expected, const std::string& label) {
  require(actual.type() == expected.type(), label, ": expected ", expected.type(), ", got ", actual.type());
  require(std::memcmp(actual.bytes(), expected.bytes(),
                      static_cast<std::size_t>(expected.count() * size_of(expected.dtype()))) == 0,
          label, ": the bits differ from the expected bits");
}

// Runs the walk and adds its transition steps to `steps_seen`, as (kind, dtype).
void run_walk(Session& session, const KernelTable& table, const OpTable& ops, const Walk& walk, std::mt19937_64& random,
              std::set<std::pair<std::string, DType>>& steps_seen) {
  Compilation c;
  c.graph = graph_of(walk, ops);
  c.ops = &ops;
  c.catalog = &table;
  c.options.workers = 2;
  c.options.off = {"canonicalise"};  // the copies must stay
  compile(c);
  for (const Transfer& transfer : c.plan.transfers) steps_seen.emplace(name_of(transfer.kind), walk.type.dtype);
  const HostArray x = numbers(walk.type, random);
  Launch launch = session.launch(session.load(c.plan), {{"x", Feed{array_source(x), 0}}});
  expect_bits(launch.output("y"), x, "the output");
  for (std::size_t i = 0; i < walk.stops.size(); ++i) {
    if (is_partial(walk.stops[i])) continue;
    for (int p = 0; p < walk.mesh.size(); ++p) {
      const DeviceName device = walk.mesh.devices[static_cast<std::size_t>(p)];
      const HostArray expected = cut(x, oracle_box(walk.type.shape, walk.mesh, walk.stops[i], p));
      expect_bits(session.read_variable(cat("v", i), {device.rank, device.device, "cpu"},
                                        stored_view(expected.dtype(), expected.shape())),
                  expected, cat("stop ", i, ", ", print(walk.stops[i]), ", on device ", p));
    }
  }
}

TEST(TransitionEquivalence, TheLogicalTensorIsKeptThroughAnySequenceOfLayouts) {
  const OpTable ops = all_ops();
  const KernelTable table(cpu_kernels());
  const char* seed_text = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::stoull(seed_text) : std::random_device()();
  std::mt19937_64 random(seed);
  const int walks = std::getenv("KAREZ_ALL") != nullptr ? 20 : 1;
  const std::vector<Shape> shapes = {{},     {1},       {5},         {0}, {7, 3},
                                     {2, 0}, {3, 5, 2}, {3, 2, 5, 4}};  // four dimensions are stored channels last
  std::set<std::pair<std::string, DType>> steps_seen;
  int stops = 0;
  Session session({.workers = 2}, table);
  for (DType dtype : tensor::all_dtypes)
    for (const char* mesh : {"a=2", "a=3", "a=4", "a=2,b=2", "a=3,b=2", "a=2,b=2,c=2"})
      for (const Shape& shape : shapes)
        for (int w = 0; w < walks; ++w) {
          Walk walk{{dtype, shape}, Mesh::parse(mesh), {}};
          for (int i = 0; i < 5; ++i) walk.stops.push_back(random_layout(walk.type, walk.mesh, random));
          try {
            run_walk(session, table, ops, walk, random, steps_seen);
            stops += static_cast<int>(walk.stops.size());
          } catch (const std::exception& error) {
            ADD_FAILURE() << "seed " << seed << ": " << print(walk) << ": " << error.what();
          }
          session.reload();  // frees the plan and its variables
        }
  for (DType dtype : tensor::all_dtypes)
    for (const char* kind : {"all_gather", "all_to_all", "reduce_scatter", "all_reduce"})
      EXPECT_TRUE(steps_seen.contains({kind, dtype})) << "seed " << seed << ": no " << kind << " of " << name_of(dtype);
  std::cout << "transition equivalence: " << stops << " transitions, KAREZ_SEED=" << seed << "\n";
}

}  // namespace
}  // namespace karez::tests
