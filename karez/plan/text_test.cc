// Tests of printing, parsing and hashing a plan, of the parser's errors, and of the summary.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/plan/catalog.h"
#include "karez/plan/plan.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

// A matmul and a sum on one device, with a variable.
Plan small_plan() {
  PlanBuilder s(1, "small");
  ActorId in = s.actor("feed", 0, 0, BodyKind::input), w = s.actor("w", 0, 0, BodyKind::state), f = s.actor("forward"),
          out = s.actor("loss", 1, 0, BodyKind::fetch);
  s.start(in);
  s.start(w);
  RegisterId x = s.edge(in, {f}, 2, 32), v = s.edge(w, {f}), y = s.edge(f, {out}, 1, 24);
  s.done(out);
  BlockId weight = s.block(BlockKind::variable, 0, 96, "fc.weight", "f32[4, 6]"),
          scratch = s.block(BlockKind::scratch, 0, 64);
  s.plan.registers[x].type = "f32[2, 4]";
  s.call(f, "plain.matmul", {in_register(x, View(DType::f32, {2, 4})), in_block(weight, View(DType::f32, {4, 6}))},
         {in_block(scratch, View(DType::f32, {2, 6}))}, {{"transpose_a", false}});
  s.call(f, "plain.reduce_sum", {in_block(scratch, View(DType::f32, {2, 6}, {1, 2}))},
         {in_register(y, View(DType::f32, {6}))}, {{"axes", Ints{0}}});
  s.plan.actors[f].calls[1].team = 2;
  Actor& feed = s.plan.actors[in];
  feed.binding = "x";
  feed.bound = {in_register(x, View(DType::f32, {2, 4}))};
  feed.slices = {Attrs{{"begin", Ints{0, 0}}, {"shape", Ints{2, 4}}}};
  Actor& fetch = s.plan.actors[out];
  fetch.binding = "loss";
  fetch.bound = {in_register(y, View(DType::f32, {6}))};
  (void)v;
  return s.plan;
}

TEST(PlanText, EachItemIsPrintedOnAReadableLine) {
  EXPECT_TRUE(golden(print(small_plan()), R"(plan "small" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 0 worker 1
block b0: register device 0 bytes 128
block b1: register device 0 bytes 64
block b2: variable device 0 bytes 96 name "fc.weight" layout "f32[4, 6]"
block b3: scratch device 0 bytes 64
register r0: session -> a0
register r1: session -> a1
register r2: a0 -> a2 slots 2 bytes 32 in b0 stride 64 type "f32[2, 4]"
register r3: a1 -> a2
register r4: a2 -> a3 bytes 24 in b1 stride 64
register r5: a3 -> session
actor a0: input "feed" stream 0 in r0 out r2 binding "x" at "feed at sketch.cc:1"
  bound r2 f32[2, 4]
  slice {begin=[0, 0], shape=[2, 4]}
actor a1: state "w" stream 0 in r1 out r3 at "w at sketch.cc:1"
actor a2: compute "forward" stream 0 in r2, r3 out r4 at "forward at sketch.cc:1"
  call "plain.matmul" {transpose_a=false} in r2 f32[2, 4], b2 f32[4, 6] out b3 f32[2, 6] at "plain.matmul at sketch.cc:2"
  call "plain.reduce_sum" {axes=[0]} in b3 f32[2, 6]{1, 2} out r4 f32[6] team 2 at "plain.reduce_sum at sketch.cc:3"
actor a3: fetch "loss" stream 1 in r4 out r5 binding "loss" at "loss at sketch.cc:1"
  bound r4 f32[6]
)"));
}

TEST(PlanText, TheLinesOfTheCostTableComeLast) {
  Plan plan = small_plan();
  const std::string bare = print(plan);
  const std::uint64_t hash = rank_hash(plan);
  plan.costs = "origin \"measured on a # of machines\"\nlink @data alpha=1 beta=2\ncall=3\n";
  EXPECT_EQ(print(plan),
            bare + "cost origin \"measured on a # of machines\"\ncost link @data alpha=1 beta=2\ncost call=3\n");
  EXPECT_EQ(parse_plan(print(plan)), plan);
  EXPECT_EQ(parse_plan(bare).costs, "");
  EXPECT_EQ(rank_hash(plan), hash) << "the hash must not depend on the cost table";
}

TEST(PlanText, TheBytesOfDataSetsAreALineOfTheirOwn) {
  Plan plan = small_plan();
  const std::string bare = print(plan);
  const std::uint64_t hash = rank_hash(plan);
  plan.data_bytes = 12'345'678'901;
  EXPECT_EQ(print(plan), bare + "data bytes 12345678901\n");
  EXPECT_EQ(parse_plan(print(plan)), plan);
  EXPECT_EQ(parse_plan(bare).data_bytes, 0);
  EXPECT_EQ(rank_hash(plan), hash) << "ranks may know different numbers";
}

TEST(PlanText, AVerifiedPlanRoundTrips) {
  Plan plan = small_plan();
  EXPECT_NO_THROW(verify(plan));
  EXPECT_EQ(parse_plan(print(plan)), plan);
}

// Makes random plans that may be invalid: strings with quotes and braces, ids of items that do not exist, empty lists.
class RandomPlan {
 public:
  explicit RandomPlan(unsigned seed) : random_(seed) {}
  Plan plan() {
    Plan p;
    p.name = text();
    p.world = small();
    p.rank = small();
    p.program_hash = (static_cast<std::uint64_t>(random_()) << 32) | random_();
    fill(p.devices, [&] { return plan_device(); });
    fill(p.streams, [&] { return Stream{DeviceId(id()), static_cast<StreamKind>(random_() % 3), small()}; });
    fill(p.blocks, [&] { return Block{static_cast<BlockKind>(random_() % 5), DeviceId(id()), big(), text(), text()}; });
    fill(p.registers, [&] {
      Register r{ActorId(id()), {}, 1 + small(), big(), BlockId(id()), big(), big(), text()};
      fill(r.consumers, [&] { return ActorId(id()); });
      return r;
    });
    fill(p.actors, [&] { return actor(); });
    fill(p.links, [&] { return Link{RegisterId(id()), plan_device(), flip(), big()}; });
    fill(p.communicators, [&] {
      Communicator c{{}, big(), {}};
      fill(c.members, [&] { return plan_device(); });
      fill(c.sequence, [&] { return text(); });
      return c;
    });
    fill(p.transfers, [&] { return Transfer{collective_kind(), text(), text(), big()}; });
    fill(p.setup, [&] { return call(); });
    return p;
  }

 private:
  bool flip() { return random_() % 2; }
  int small() { return static_cast<int>(random_() % 5); }
  int id() { return small() - 1; }
  std::int64_t big() { return flip() ? 0 : static_cast<std::int64_t>(random_()) * 1000; }
  std::string text() {
    static const char* texts[] = {"",        "x", "two words",    "\"quoted\"", "a\\b",   "line\nbreak\t",
                                  "{brace}", "}", "# no comment", "session",    "every 3"};
    return texts[random_() % std::size(texts)];
  }
  template <class Items, class Make> void fill(Items& items, Make make) {
    for (int n = small() - 1; n > 0; --n) items.push_back(make());
  }
  CollectiveKind collective_kind() { return static_cast<CollectiveKind>(random_() % 5); }
  PlanDevice plan_device() { return {small(), small(), text()}; }
  View view() {
    Shape shape;
    fill(shape, [&] { return small(); });
    static const DType types[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8};
    View v(types[random_() % 5], shape);
    if (flip())
      for (auto& stride : v.strides) stride = small();
    return v;
  }
  Operand operand() { return {RegisterId(id()), BlockId(id()), big(), view()}; }
  Attrs attrs() {
    Attrs a;
    if (flip()) a.set("text", text());
    if (flip()) a.set("ints", Attr(Ints{1, -2, 3}));
    if (flip()) a.set("real", 0.1 * small());
    if (flip()) a.set("flag", flip());
    return a;
  }
  Call call() {
    Call c;
    c.kernel = text();
    c.attrs = attrs();
    c.team = 1 + small();
    c.where = text();
    if (flip()) c.acts = {small(), 1 + small()};
    fill(c.in, [&] { return operand(); });
    fill(c.out, [&] { return operand(); });
    if (flip()) c.workspace = operand();
    return c;
  }
  Collective collective() {
    Collective c{CommunicatorId(id()),
                 collective_kind(),
                 {},
                 {small(), small()},
                 operand(),
                 operand(),
                 {},
                 {},
                 {},
                 text(),
                 static_cast<CollectiveAlgorithm>(random_() % 4)};
    if (flip()) c.reduce = static_cast<Reduce>(random_() % 3);
    auto peer_box = [&] {
      return PeerBox{small(), {1, 2}, flip() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{3, 4}};
    };
    fill(c.sends, peer_box);
    fill(c.receives, peer_box);
    if (flip()) c.staging = operand();
    return c;
  }
  Actor actor() {
    Actor a;
    a.name = text();
    a.stream = StreamId(id());
    fill(a.inputs, [&] { return Port{RegisterId(id()), 1 + small()}; });
    fill(a.outputs, [&] { return Port{RegisterId(id()), 1 + small()}; });
    a.body = static_cast<BodyKind>(random_() % 5);
    fill(a.calls, [&] { return call(); });
    if (flip()) a.collective = collective();
    a.binding = text();
    fill(a.bound, [&] { return operand(); });
    fill(a.slices, [&] { return attrs(); });
    a.priority = id();
    a.where = text();
    return a;
  }
  std::mt19937 random_;
};

TEST(PlanText, AnyPlanRoundTrips) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  unsigned first_seed = seed_text ? static_cast<unsigned>(std::atoi(seed_text)) : 1;
  for (unsigned seed = first_seed; seed < first_seed + 300; ++seed) {
    Plan plan = RandomPlan(seed).plan();
    std::string text = print(plan);
    Plan parsed;
    ASSERT_NO_THROW(parsed = parse_plan(text)) << "KAREZ_SEED=" << seed << "\n" << text;
    ASSERT_EQ(parsed, plan) << "KAREZ_SEED=" << seed << "\n" << text << "became\n" << print(parsed);
  }
}

TEST(PlanText, QuotesBracesAndLineEndsInsideAttributesRoundTrip) {
  for (std::string text :
       {"}", "{", "\"", "\\", "\\\"", "a=1, b=2}", "{x=\"y\"}", "\n} in r0 f32[1]", "]", "' \" at \"z", "tab\t\r"}) {
    Plan plan = small_plan();
    for (Actor& actor : plan.actors) {
      for (Call& call : actor.calls) call.attrs = Attrs{{"text", text}, {"after", std::int64_t{3}}};
      for (Attrs& slice : actor.slices) slice.set("note", text);
      if (!actor.binding.empty()) actor.binding = text + "b";
      actor.name = text;
      actor.where = text;
    }
    for (Block& block : plan.blocks) block.name = block.layout = text;
    std::string printed = print(plan);
    Plan parsed;
    ASSERT_NO_THROW(parsed = parse_plan(printed)) << printed;
    ASSERT_EQ(parsed, plan) << printed;
    EXPECT_EQ(parsed.actors[ActorId(2)].calls[0].attrs.text("text"), text);
    EXPECT_EQ(print(parsed), printed);
  }
}

std::string error_of(const std::string& text) {
  try {
    parse_plan(text);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(PlanText, InvalidTextThrowsAnErrorWithItsPosition) {
  const std::string head = "plan \"x\" world 1 rank 0 hash 0\n";
  const std::pair<std::string, std::string> rows[] = {
      {"", "plan: line 1, column 1: expected 'plan' at the end"},
      {head + "divice 0: 0 0 \"cpu\"\n",
       "line 2, column 1: expected device, stream, block, register, actor, link, communicator, transfer, setup, cost "
       "or "
       "data at"},
      {head + "data 7\n", "line 2, column 6: expected 'bytes' at '7'"},
      {head + "cost \n", "expected a line of a cost table"},
      {head + "cost # call=1", "expected a line of a cost table"},
      {head + "device 1: 0 0 \"cpu\"\n", "expected number 0, got 1 at ': 0 0 \"cpu\"'"},
      {head + "block b0: attic device 0 bytes 1\n",
       "unknown kind of block 'attic'; expected one of: scratch, register, variable, constant, external at"},
      {head + "actor a0: dance \"x\" stream 0\n",
       "unknown kind of actor 'dance'; expected one of: compute, input, fetch, state, collective at"},
      {head + "stream 0: \"dance\" device 0 worker 0\n",
       "unknown kind of stream 'dance'; expected one of: host, compute, comm"},
      {head + "transfer \"dance\" \"data\" bytes 8 \"x\"\n",
       "unknown collective 'dance'; expected one of: all_reduce, reduce_scatter, all_gather, all_to_all, "
       "transfer"},
      {head + "setup \"k\" {a=\"}", "attributes have no closing '}' at '{a=\"}'"},
      {head + "stream 0: \"host\" device 99999999999 worker 0\n", "99999999999 is out of range at"},
      {head + "device 0: 0 0 \"cpu\"\nregister r0: b1\n", "line 3, column 14: expected 'a' at 'b1'"},
  };
  for (const auto& [text, message] : rows) {
    std::string error = error_of(text);
    EXPECT_NE(error.find(message), std::string::npos) << "expected: " << message << "\nbut: " << error;
  }
}

TEST(PlanText, ParsingAnyPrefixOfAPlanSucceedsOrThrows) {
  std::string text = print(small_plan());
  for (std::size_t n = 0; n < text.size(); ++n) {
    try {
      parse_plan(text.substr(0, n));
    } catch (const Error&) {}
  }
}

TEST(PlanText, TheHashCoversAllFieldsExceptNamesForDisplay) {
  Plan plan = small_plan(), changed = plan;
  changed.name = "other";
  changed.actors[ActorId(2)].name = "renamed";
  changed.actors[ActorId(2)].calls[0].where = "elsewhere.cc:9";
  changed.registers[RegisterId(2)].type = "f32[2@data, 4]";
  EXPECT_EQ(rank_hash(changed), rank_hash(plan));
  changed.actors[ActorId(2)].calls[0].attrs.set("transpose_a", true);
  EXPECT_NE(rank_hash(changed), rank_hash(plan));
  changed = plan;
  changed.registers[RegisterId(2)].slots = 3;
  EXPECT_NE(rank_hash(changed), rank_hash(plan));
  Plan with_setup = plan;
  with_setup.setup.push_back(plan.actors[ActorId(2)].calls[0]);
  EXPECT_NE(rank_hash(with_setup), rank_hash(plan));
  changed = with_setup;
  changed.setup.back().where = "elsewhere.cc:9";
  EXPECT_EQ(rank_hash(changed), rank_hash(with_setup));
}

TEST(PlanText, ACallIsPrintedWithItsTypes) {
  CallSpec call;
  call.op = "matmul";
  call.attrs = {{"transpose_a", true}};
  call.in = {View(DType::f32, {8, 4}), View(DType::f32, {8, 6}, {1, 8})};
  call.out = {View(DType::f32, {4, 6})};
  call.team = 2;
  EXPECT_EQ(print(call), "matmul(f32[8, 4], f32[8, 6]{1, 8}) {transpose_a=true} -> f32[4, 6] team 2");
}

TEST(PlanSummary, APlanOfARankWithoutDevicesIsOneLine) {
  Plan plan;
  plan.name = "step", plan.world = 2, plan.rank = 1;
  EXPECT_EQ(summary(plan), "plan 'step' of rank 1 of 2: no device of this rank executes it\n");
}

TEST(PlanSummary, TheSummaryListsCountsMemoryAndTransfers) {
  Plan plan = small_plan();
  EXPECT_TRUE(golden(summary(plan), R"(plan 'small' of rank 0 of 1: 1 device, 2 streams
4 actors (1 compute, 1 fetch, 1 input, 1 state), 2 kernel calls (248 B), 6 registers, 12 messages per launch
peak memory by device
  cpu 0.0  352 B  (scratch 64 B, register 192 B, variable 96 B)
registers and scratch, relative to the bytes that are live at once
  cpu 0.0  planned 256 B,  bound 80 B,  ratio 3.200; 2.286 if the bound includes 32 B for launches that run ahead
2 calls run on a plain kernel, because no fast kernel supports the types or strides
  kernel            calls  share of bytes  first call
  plain.matmul      1      71.0 %          plain.matmul at sketch.cc:2
  plain.reduce_sum  1      29.0 %          plain.reduce_sum at sketch.cc:3
no transfers between devices
)"));
  for (Actor& actor : plan.actors)
    for (Call& call : actor.calls) call.kernel = "fast.any";
  EXPECT_EQ(summary(plan).find("plain kernel"), std::string::npos)
      << "plain kernels must not be reported if no call runs on one";
  plan.transfers = {{CollectiveKind::all_reduce, "data", "fc.weight gradient", 1024},
                    {CollectiveKind::all_gather, "model", "loss", 96}};
  std::string text = summary(plan);
  EXPECT_NE(text.find(R"(2 transfers, 1.09 KiB (1120 bytes) per launch
  kind        axis   bytes  value
  all_reduce  data   1024   fc.weight gradient
  all_gather  model  96     loss
)"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace karez::plan
