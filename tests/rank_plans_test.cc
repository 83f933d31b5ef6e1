// Tests that the separately compiled plans of all ranks together equal the plan of one process with all devices.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/karez.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/place.h"
#include "karez/passes/sharding/layout_rules.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {
using namespace passes;

struct Net : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 8, 3};
  nn::Linear fc1{*this, "fc1", 8 * 5 * 5, 24}, fc2{*this, "fc2", 24, 10};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(flatten(avg_pool(tanh(conv(x)), 2))))); }
};

struct Case {
  const char* mesh;
  std::vector<LayoutRule> rules = {};
  int microbatches = 1;
  bool stages = false;  // fc1 and fc2 on the second half of the devices
};

const std::vector<LayoutRule> by_rule = {{"conv.weight", P("model")},
                                         {"fc1.weight", P("model", nullptr)},
                                         {"fc1.bias", P("model")},
                                         {"fc2.weight", P(nullptr, "model")}};

// Returns the graph of a training step, traced in a world of one process.
graph::Graph trace_step(const Case& k, const World& world) {
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.5});
  std::vector<PlacementRule> placements;
  if (k.stages) placements = {{"conv", 0}, {"fc1", 1}, {"fc2", 1}};
  auto step = compile(world.mesh(k.mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor scores = net(x), loss = cross_entropy(scores, y);
                        sgd.step(grad(loss, net.parameters()));
                        return std::pair{loss, scores};
                      },
                      {.placements = placements, .microbatches = k.microbatches});
  step.compile({{DType::f32, {30, 3, 12, 12}}, {DType::i32, {30}}});
  graph::Graph graph = step.graph();
  apply_rules(graph, k.rules);
  return graph;
}

// Compiles the graph for one rank of a world in which each rank has `devices_per_rank` devices.
Compilation compile_for_rank(graph::Graph graph, const graph::OpTable& ops, const kernels::KernelTable& kernels,
                             int rank, int ranks, int devices_per_rank, int micro) {
  for (Mesh& mesh : graph.meshes)
    for (sbp::DeviceName& device : mesh.devices) {
      const int number = device.rank * devices_per_rank + device.device;
      device = {number / devices_per_rank, number % devices_per_rank};
    }
  Compilation c;
  c.graph = std::move(graph);
  c.ops = &ops;
  c.catalog = &kernels;
  c.options.rank = rank;
  c.options.world = ranks;
  c.options.team = 2;
  c.options.microbatches = micro;
  c.options.fold_bytes = 0;  // do not fold constants
  c.options.off = {"canonicalise"};
  compile(c);
  return c;
}

std::string views(const std::vector<plan::Operand>& operands) {
  return join(operands, ", ", [](const plan::Operand& o) { return print(o.view); });
}

// Adds the parts of a plan to the devices, which are numbered within the world: calls with kernels, strides and teams;
// collectives with members, sequences and boxes; fetches and variables. Addresses in memory are omitted.
using Device = std::multiset<std::string>;
void add_to(std::map<int, Device>& devices, const plan::Plan& plan, int devices_per_rank) {
  auto number = [&](const plan::PlanDevice& d) { return d.rank * devices_per_rank + d.device; };
  auto pieces = [](const std::vector<plan::PeerBox>& list) {
    return join(list, " ", [](const plan::PeerBox& p) { return cat(p.begin, "+", p.size); });
  };
  for (const plan::Actor& actor : plan.actors) {
    Device& device = devices[number(plan.devices[plan.stream(actor.stream).device])];
    for (const plan::Call& call : actor.calls)
      device.insert(cat(actor.name, ": ", call.kernel, " ", call.attrs.print(), " ", views(call.in), " -> ",
                        views(call.out), " team ", call.team, " acts ", call.acts.begin, "-", call.acts.end, " ",
                        call.where));
    if (const auto& c = actor.collective) {
      const plan::Communicator& group = plan.communicators[c->communicator];
      device.insert(cat(actor.name, ": ", c->kind, " ", c->reduce ? name_of(*c->reduce) : "", " among ",
                        join(group.members, " ", [&](const plan::PlanDevice& d) { return cat(number(d)); }), " ",
                        c->algorithm, " [", join(group.sequence, ", "), "] at ", join(c->turns, " "), " ",
                        print(c->in.view), " -> ", print(c->out.view), " sends ", pieces(c->sends), " receives ",
                        pieces(c->receives)));
    }
    if (actor.body == plan::BodyKind::fetch)
      device.insert(cat(actor.name, ": ", views(actor.bound),
                        join(actor.slices, " ", [](const Attrs& slice) { return slice.print(); })));
  }
  for (const plan::Block& block : plan.blocks)
    if (block.kind == plan::BlockKind::variable)
      devices[number(plan.devices[block.device])].insert(
          cat("variable ", block.name, " ", block.layout, " ", block.bytes));
}

class RankPlans : public ::testing::TestWithParam<Case> {};

TEST_P(RankPlans, PlansOfAllRanksEqualThePlanOfOneProcessWithAllDevices) {
  const Case& k = GetParam();
  const int devices = Mesh::parse(k.mesh).size();
  const graph::OpTable ops = ops::all_ops();
  const kernels::KernelTable kernels(kernels::cpu_kernels());
  World world({.devices = devices, .workers = 1, .team = 1});
  const graph::Graph graph = trace_step(k, world);
  const Compilation single_process = compile_for_rank(graph, ops, kernels, 0, 1, devices, k.microbatches);
  std::map<int, Device> expected;
  add_to(expected, single_process.plan, devices);
  for (int ranks : {2, 4}) {
    if (devices % ranks != 0) continue;
    const int devices_per_rank = devices / ranks;
    std::map<int, Device> actual;
    std::map<std::string, std::int64_t> bytes;  // by transfer, over all ranks
    std::set<std::uint64_t> hashes;
    for (int rank = 0; rank < ranks; ++rank) {
      const Compilation compilation =
          compile_for_rank(graph, ops, kernels, rank, ranks, devices_per_rank, k.microbatches);
      for (const plan::PlanDevice& device : compilation.plan.devices) EXPECT_EQ(device.rank, rank);
      add_to(actual, compilation.plan, devices_per_rank);
      for (const plan::Transfer& t : compilation.plan.transfers)
        bytes[cat(t.kind, " ", t.axis, " ", t.value)] += t.bytes;
      hashes.insert(compilation.plan.program_hash);
    }
    EXPECT_EQ(hashes.size(), 1u) << "all ranks must have the same program hash";
    for (int d = 0; d < devices; ++d)
      EXPECT_EQ(actual[d], expected[d]) << "device " << d << " of " << ranks << " ranks";
    std::map<std::string, std::int64_t> expected_bytes;
    for (const plan::Transfer& t : single_process.plan.transfers)
      expected_bytes[cat(t.kind, " ", t.axis, " ", t.value)] += t.bytes;
    EXPECT_EQ(bytes, expected_bytes) << ranks << " ranks";
    EXPECT_FALSE(expected_bytes.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, RankPlans,
                         ::testing::Values(Case{"data=4"}, Case{"model=4", by_rule}, Case{"data=2,model=2", by_rule},
                                           Case{"data=2,model=2"}, Case{"data=4", {}, 3}, Case{"stage=2", {}, 1, true},
                                           Case{"stage=2,data=2", {}, 2, true}));

}  // namespace
}  // namespace karez::tests
