// Tests that compare predicted times with sums computed by hand.
#include "karez/report/predictor.h"

#include <gtest/gtest.h>

namespace karez::report {
namespace {

// Costs that make the terms distinguishable: 1 s per call, 1e-3 s per byte, 10 s (matmul) or 100 s (conv) per
// operation, 1e6 s per message, 1e4 s per byte sent.
CostTable costs() {
  return CostTable::parse(
      "link alpha=1e6 beta=1e4 link @far alpha=3e6 beta=1e4 matmul_flops=0.1 conv_flops=0.01 memory_bytes=1000 call=1");
}

Operand operand(View view) {
  Operand out;
  out.block = BlockId(0);
  out.view = std::move(view);
  return out;
}

double seconds(std::string kernel, std::vector<View> in, View out, Attrs attrs = {}) {
  Call call;
  call.kernel = std::move(kernel);
  call.attrs = std::move(attrs);
  for (View& view : in) call.in.push_back(operand(std::move(view)));
  call.out.push_back(operand(std::move(out)));
  return Predictor(costs()).call(call);
}

const auto f32 = DType::f32;

TEST(Predictor, AMatmulIsPricedByItsOperations) {
  EXPECT_DOUBLE_EQ(seconds("onednn.matmul", {{f32, {2, 3}}, {f32, {3, 5}}}, {f32, {2, 5}}), 10.0 * 2 * 2 * 3 * 5 + 1);
  EXPECT_DOUBLE_EQ(seconds("onednn.matmul", {{f32, {2, 3}}, {f32, {5, 3}}, {f32, {5}}}, {f32, {2, 5}},
                           {{"transpose_b", true}, {"bias", true}}),
                   10.0 * 2 * 2 * 3 * 5 + 1);
}

TEST(Predictor, AGroupHasTheOperationsOfAllItsCallsButIsOneCall) {
  Call call;
  call.kernel = "onednn.matmul";
  call.attrs.set("calls", std::int64_t{2});
  for (int i = 0; i < 2; ++i) {
    call.in.push_back(operand({f32, {2, 3}})), call.in.push_back(operand({f32, {3, 5}}));
    call.out.push_back(operand({f32, {2, 5}}));
  }
  EXPECT_DOUBLE_EQ(Predictor(costs()).call(call), 2 * 10.0 * 2 * 2 * 3 * 5 + 1);
}

TEST(Predictor, AConvolutionIsPricedByItsOperations) {
  EXPECT_DOUBLE_EQ(seconds("onednn.conv2d", {{f32, {1, 2, 5, 5}}, {f32, {3, 2, 3, 3}}}, {f32, {1, 3, 3, 3}}),
                   100.0 * 2 * 27 * 18 + 1);
}

TEST(Predictor, OtherCallsArePricedByTheDistinctBytesTheyAccess) {
  EXPECT_DOUBLE_EQ(
      seconds("hwy.pointwise", {{f32, {4, 6}}, {f32, {4, 6}, {1, 0}}}, {f32, {4, 6}}, {{"expr", "x0 + x1"}}),
      (96 + 16 + 96) / 1000.0 + 1);
  EXPECT_DOUBLE_EQ(seconds("hwy.pointwise", {{f32, {4}, {10}}}, {f32, {4}}), 32 / 1000.0 + 1)
      << "bytes between strided elements do not count";
}

TEST(Predictor, ACallHasTheRateOfItsKindAndSize) {
  CostTable rates = costs();
  rates.rates[find_rate("matmul.vector")] = 10;
  rates.rates[find_rate("reduce.l1")] = 100;
  rates.rates[functions_rate] = 2;
  auto seconds_of = [&](std::string kernel, std::vector<View> in, View out, Attrs attrs) {
    Call call;
    call.kernel = std::move(kernel), call.attrs = std::move(attrs);
    for (View& view : in) call.in.push_back(operand(std::move(view)));
    call.out.push_back(operand(std::move(out)));
    return Predictor(rates).call(call);
  };
  EXPECT_DOUBLE_EQ(seconds_of("onednn.matmul", {{f32, {2, 3}}, {f32, {3, 5}}}, {f32, {2, 5}}, {}), 60 / 10.0 + 1);
  EXPECT_DOUBLE_EQ(seconds_of("hwy.reduce_sum", {{f32, {4, 6}}}, {f32, {4}}, {{"axes", Ints{1}}}),
                   (96 + 16) / 100.0 + 1);
  EXPECT_DOUBLE_EQ(seconds_of("hwy.pointwise", {{f32, {4}}}, {f32, {4}}, {{"expr", "exp(x0)"}}), 4 / 2.0 + 1);
}

TEST(Predictor, APlainKernelTakesTwentyTimesAsLong) {
  EXPECT_DOUBLE_EQ(seconds("plain.matmul", {{f32, {2, 3}}, {f32, {3, 5}}}, {f32, {2, 5}}),
                   20 * 10.0 * 2 * 2 * 3 * 5 + 1);
}

TEST(Predictor, AnUnknownKernelIsPricedByItsBytes) {
  EXPECT_DOUBLE_EQ(seconds("mine.matmul", {{f32, {10}}}, {f32, {10}}), 80 / 1000.0 + 1);
}

// Makes a plan with one collective between two devices and its transfer on an axis.
Plan with_collective(CollectiveKind kind, View in, View out, std::vector<plan::PeerBox> sends, std::string axis) {
  Plan plan;
  plan.devices = {{0, 0, "cpu"}, {0, 1, "cpu"}};
  plan.streams = {{DeviceId(1), StreamKind::comm, 0}};
  plan.communicators.push_back({{{0, 0, "cpu"}, {0, 1, "cpu"}}, 64, {"it"}});
  Collective c;
  c.communicator = CommunicatorId(0);
  c.kind = kind;
  c.in = operand(std::move(in)), c.out = operand(std::move(out));
  c.sends = std::move(sends);
  c.where = "relu at net.cc:1";
  Actor actor;
  actor.name = base::cat(kind, " %1");
  actor.stream = StreamId(0);
  actor.body = BodyKind::collective;
  actor.collective = c;
  plan.actors.push_back(actor);
  plan.transfers.push_back({kind, axis, "relu at net.cc:1 f32[8]", 0});
  return plan;
}
double act_seconds(const Predictor& predictor, const Plan& plan, int actor = 0) {
  return predictor.act(plan, ActorId(actor), transfer_indices(plan)[static_cast<std::size_t>(actor)]);
}
double collective_seconds(const Plan& plan) { return act_seconds(Predictor(costs()), plan); }

TEST(Predictor, ACollectiveCountsOnlyMessagesAndBytesToOtherMembers) {
  EXPECT_DOUBLE_EQ(collective_seconds(with_collective(CollectiveKind::all_gather, {f32, {4}}, {f32, {8}},
                                                      {{0, {0}, {4}}, {1, {0}, {4}}}, "near")),
                   1e6 + 16 * 1e4 + 16 / 1000.0 + 1);
  EXPECT_DOUBLE_EQ(collective_seconds(with_collective(CollectiveKind::all_reduce, {f32, {8}}, {f32, {8}}, {}, "near")),
                   2e6 + 32 * 1e4 + 32 / 1000.0 + 1);
  EXPECT_DOUBLE_EQ(collective_seconds(with_collective(CollectiveKind::reduce_scatter, {f32, {9}}, {f32, {4}},
                                                      {{0, {0}, {5}}, {1, {5}, {4}}}, "near")),
                   1e6 + 20 * 1e4 + 2 * 16 / 1000.0 + 1);
}

TEST(Predictor, AMemberInTheMiddleSendsToBothNeighbours) {
  Plan plan = with_collective(CollectiveKind::all_to_all, {f32, {6}}, {f32, {6}},
                              {{0, {0}, {1}}, {1, {1}, {2}}, {2, {3}, {3}}}, "near");
  plan.devices.push_back({0, 2, "cpu"});
  plan.communicators[CommunicatorId(0)].members.push_back({0, 2, "cpu"});
  EXPECT_DOUBLE_EQ(collective_seconds(plan), 2e6 + (1 + 3) * 4 * 1e4 + 24 / 1000.0 + 1);
}

TEST(Predictor, ACollectiveUsesTheLinkOfItsAxis) {
  EXPECT_DOUBLE_EQ(collective_seconds(with_collective(CollectiveKind::all_reduce, {f32, {8}}, {f32, {8}}, {}, "far")),
                   6e6 + 32 * 1e4 + 32 / 1000.0 + 1);
}

TEST(Predictor, MembersOfACollectiveShareATransferAndTheNextCollectiveHasAnother) {
  Plan plan = with_collective(CollectiveKind::all_reduce, {f32, {8}}, {f32, {8}}, {}, "near");
  Actor copy = plan.actors[ActorId(0)];
  plan.actors.push_back(copy);
  copy.name = "all_reduce %2";
  plan.actors.push_back(copy);
  EXPECT_EQ(transfer_indices(plan), (std::vector<int>{0, 0, -1})) << "the second collective has no transfer";
  plan.transfers.push_back(plan.transfers[0]);
  EXPECT_EQ(transfer_indices(plan), (std::vector<int>{0, 0, 1}));
  plan.transfers[0].kind = CollectiveKind::all_gather;
  EXPECT_EQ(transfer_indices(plan), (std::vector<int>{1, 1, -1}));
}

TEST(Predictor, ATransferBetweenPlacementsUsesTheLinkOfThePlanner) {
  CostTable table = costs();
  const Plan plan =
      with_collective(CollectiveKind::transfer, {f32, {8}}, {f32, {1}}, {{0, {0}, {8}}}, "mesh0 to mesh1");
  const double common = act_seconds(Predictor(table), plan);
  table.axis_links.emplace_back("stage", LinkCost{table.link.alpha + 5, table.link.beta});
  EXPECT_DOUBLE_EQ(act_seconds(Predictor(table), plan), common + 5);
}

TEST(Predictor, AMemberThatOnlyReceivesTakesAsLongAsTheSender) {
  Plan plan = with_collective(CollectiveKind::transfer, {f32, {8}}, {f32, {1}}, {{0, {0}, {8}}}, "near");
  Actor receiver = plan.actors[ActorId(0)];
  receiver.stream = plan.streams.add({DeviceId(0), StreamKind::comm, 0});
  receiver.collective->in = operand({f32, {1}}), receiver.collective->sends.clear();
  plan.actors.push_back(receiver);
  const Predictor predictor(costs());
  EXPECT_LT(act_seconds(predictor, plan, 1), act_seconds(predictor, plan));
  EXPECT_EQ(predictor.acts(plan), (ById<ActorId, double>(2, act_seconds(predictor, plan))));
}

TEST(Predictor, CopiesArePricedByBytesReadAndWritten) {
  Plan plan;
  Actor input;
  input.body = BodyKind::input;
  input.bound.push_back(operand({f32, {10}}));
  plan.actors.push_back(input);
  EXPECT_DOUBLE_EQ(act_seconds(Predictor(costs()), plan), 80 / 1000.0 + 1);
}

}  // namespace
}  // namespace karez::report
