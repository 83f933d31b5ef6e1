// Tests of the protocol with hand-written messages to single ports, and with every order of messages and acts on small
// graphs.
#include "karez/plan/ports.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "karez/plan/acts.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

std::vector<Message> messages_of(Ports& ports) {
  std::vector<Message> sent_messages;
  ports.complete([&](const Message& m) { sent_messages.push_back(m); });
  return sent_messages;
}

// start -> a -> {b, c} with `slots`; b and c feed d.
struct Diamond {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c"), d = s.actor("d");
  RegisterId begin = s.start(a), ab, bd, cd, end;
  explicit Diamond(int slots) {
    ab = s.edge(a, {b, c}, slots);
    bd = s.edge(b, {d});
    cd = s.edge(c, {d});
    end = s.done(d);
  }
};

TEST(Ports, AFullInputWaitsWhileNoOutputSlotIsFree) {
  Diamond g(1);
  Ports a(g.s.plan, g.a);
  EXPECT_FALSE(a.ready()) << "no input is filled";
  EXPECT_TRUE(a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 0}));
  EXPECT_TRUE(a.ready());
  a.begin();
  messages_of(a);
  EXPECT_FALSE(a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 1})) << "b and c hold the only slot";
  EXPECT_FALSE(a.ready());
  EXPECT_FALSE(a.take({.kind = Message::Kind::returned, .port = 0, .to = g.a, .reg = g.ab}))
      << "c has not returned the slot";
  EXPECT_EQ(a.holders(0, 0), 1);
  EXPECT_TRUE(a.take({.kind = Message::Kind::returned, .port = 0, .to = g.a, .reg = g.ab}));
  EXPECT_TRUE(a.ready());
}

TEST(Ports, AnActReturnsItsInputsAndThenInformsItsConsumers) {
  Diamond g(2);
  Ports a(g.s.plan, g.a);
  a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 0});
  a.begin();
  EXPECT_TRUE(a.running());
  EXPECT_FALSE(a.ready()) << "the actor is running";
  auto sent_messages = messages_of(a);
  ASSERT_EQ(sent_messages.size(), 3u);
  EXPECT_EQ(print(sent_messages[0]), "returned r0 slot 0 to actor -1");
  EXPECT_EQ(print(sent_messages[1]), "filled r1 slot 0 piece 0 to actor 1");
  EXPECT_EQ(print(sent_messages[2]), "filled r1 slot 0 piece 0 to actor 2");
  std::set<int> lanes;
  for (const Message& m : sent_messages) lanes.insert(m.lane);
  EXPECT_EQ(lanes.size(), 3u) << "each message must have its own lane";
  EXPECT_EQ(a.lanes(), 1 + 2 * 2);
}

TEST(Ports, AMessageTakenDuringAnActIsCounted) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a, 9);
  RegisterId ab = s.edge(a, {b}, 2);
  s.done(b, 9);
  Ports ports(s.plan, b);
  ports.take({.port = 0, .to = b, .reg = ab, .piece = 0});
  ports.begin();
  EXPECT_FALSE(ports.take({.slot = 1, .port = 0, .to = b, .reg = ab, .piece = 1})) << "the actor is running";
  messages_of(ports);
  EXPECT_TRUE(ports.ready()) << "the next piece has arrived already";
}

TEST(Ports, AnInputOfPeriodThreeReturnsItsSlotOnEveryThirdAct) {
  PlanBuilder s;
  ActorId a = s.actor("a");
  RegisterId begin = s.start(a, 3), end = s.done(a, 3);
  Ports ports(s.plan, a);
  ports.take({.port = 0, .to = a, .reg = begin, .piece = 0});
  for (int act = 0; act < 3; ++act) {
    ASSERT_TRUE(ports.ready()) << act;
    ports.begin();
    EXPECT_EQ(ports.input_slot(0), 0);
    EXPECT_EQ(ports.first_of_period(0), act == 0) << "the output's slot is taken at the first act";
    auto sent_messages = messages_of(ports);
    EXPECT_EQ(sent_messages.size(), act == 2 ? 2u : 0u) << "the output's slot is filled at the last act";
    if (act == 2) {
      EXPECT_EQ(sent_messages[0].reg, begin);
      EXPECT_EQ(sent_messages[1].reg, end);
    }
  }
  EXPECT_FALSE(ports.ready());
  EXPECT_EQ(ports.acts(), 3);
}

TEST(Ports, BreakingTheProtocolIsAnError) {
  Diamond g(1);
  Ports a(g.s.plan, g.a);
  EXPECT_THROW(a.begin(), Error) << "the actor is not ready";
  EXPECT_THROW(messages_of(a), Error) << "the actor is not running";
  EXPECT_THROW(a.take({.port = 1, .to = g.a, .reg = g.begin}), Error) << "input 1 does not exist";
  EXPECT_THROW(a.take({.port = 0, .to = g.a, .reg = g.ab}), Error) << "input 0 reads another register";
  EXPECT_THROW(a.take({.slot = 1, .port = 0, .to = g.a, .reg = g.begin}), Error) << "slot 1 does not exist";
  EXPECT_THROW(a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 1}), Error) << "piece 0 was lost";
  EXPECT_THROW(a.take({.kind = Message::Kind::returned, .port = 0, .to = g.a, .reg = g.ab}), Error)
      << "no consumer holds the slot";
  EXPECT_THROW(a.take({.kind = Message::Kind::returned, .port = 4, .to = g.a, .reg = g.ab}), Error)
      << "output 4 does not exist";
  a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 0});
  EXPECT_THROW(a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 0}), Error) << "piece 0 was already received";
  EXPECT_THROW(a.take({.port = 0, .to = g.a, .reg = g.begin, .piece = 1}), Error) << "the only slot is in use";
  a.begin();
  EXPECT_THROW(a.begin(), Error) << "the act has already begun";
}

TEST(Ports, AnInvalidPlanIsAnError) {
  Diamond g(1);
  Plan plan = g.s.plan;
  plan.registers[g.ab].slots = 0;
  EXPECT_THROW(Ports(plan, g.a), Error);
  plan.registers[g.ab].slots = 40000;
  EXPECT_THROW(Ports(plan, g.b), Error);
  plan = g.s.plan;
  plan.actors[g.b].inputs[0].period = 0;
  EXPECT_THROW(Ports(plan, g.b), Error);
  plan = g.s.plan;
  plan.actors[g.c].inputs.clear();
  EXPECT_THROW(Ports(plan, g.a), Error) << "c does not list the register of a";
}

// Explores, over one launch, every order in which acts may begin and end and in which the messages between different
// pairs of actors may arrive. Memory is modelled: a slot holds garbage while it is written, and the piece afterwards. A
// consumer must find the expected piece when it begins and when it ends.
class Explorer {
 public:
  explicit Explorer(const Plan& plan)
      : plan_(plan),
        messages_due_(messages_per_launch(plan)),
        acts_due_(acts_per_launch(plan)) {}

  // Returns the number of states visited; an invalid state fails the test.
  std::size_t explore() {
    State first{{}, Ports::session_start(plan_), Ports::session_done(plan_), {}, {}, 0, false};
    for (ActorId i : plan_.actors.ids()) first.ports.emplace_back(plan_, i);
    for (const Register& r : plan_.registers) first.memory.emplace_back(static_cast<std::size_t>(r.slots), -1);
    first.session_start.begin();
    first.session_start.complete([&](const Message& m) {
      first.memory[m.reg][m.slot] = m.piece;
      send(first, session_actor, m);
    });
    std::vector<State> open{first};
    seen_.insert(key(first));
    while (!open.empty() && !::testing::Test::HasFailure()) {
      State state = std::move(open.back());
      open.pop_back();
      bool has_successor = false;
      auto visit = [&](State next) {
        has_successor = true;
        if (seen_.insert(key(next)).second) open.push_back(std::move(next));
      };
      for (auto& [pair, channel] : state.channels)
        if (!channel.empty()) visit(deliver(state, pair));
      for (ActorId i : state.ports.ids()) {
        if (state.ports[i].ready()) visit(begin(state, i));
        if (state.ports[i].running()) visit(end(state, i));
      }
      if (state.session_done.ready()) visit(end_launch(state));
      if (!has_successor) check_final(state);
    }
    EXPECT_GT(final_states_, 0u) << "no order reached the end of the launch";
    return seen_.size();
  }

 private:
  struct State {
    ById<ActorId, Ports> ports;
    Ports session_start, session_done;
    std::map<std::pair<int, int>, std::deque<Message>> channels;  // (from, to): in order
    ById<RegisterId, std::vector<std::int64_t>> memory;           // by slot: the piece in it; -1: garbage
    std::int64_t messages;
    bool launch_ended;
  };

  std::string key(const State& s) const {
    std::string text = cat(s.session_start.text(), s.session_done.text(), s.launch_ended);
    for (const Ports& p : s.ports) text += cat(p.text(), "\n");
    for (const auto& [pair, channel] : s.channels)
      for (const Message& m : channel) text += cat(pair.first, print(m), m.port, "\n");
    for (const auto& slots : s.memory) text += join(slots, ",") + "\n";
    return text;
  }
  void send(State& s, ActorId from, const Message& m) const {
    ++s.messages;
    s.channels[{from.index, m.to.index}].push_back(m);
  }
  State deliver(const State& previous, std::pair<int, int> pair) const {
    State s = previous;
    Message m = s.channels[pair].front();
    s.channels[pair].pop_front();
    if (m.to == session_actor) (m.kind == Message::Kind::filled ? s.session_done : s.session_start).take(m);
    else s.ports[m.to].take(m);
    return s;
  }
  void check_reads(const State& s, ActorId i) const {
    const Ports& p = s.ports[i];
    for (int in = 0; in < p.input_count(); ++in) {
      std::int64_t expected_piece = p.acts() / plan_.actors[i].inputs[in].period;
      EXPECT_EQ(s.memory[p.input_register(in)][p.input_slot(in)], expected_piece)
          << plan_.actors[i].name << " reads register " << p.input_register(in);
    }
  }
  State begin(const State& previous, ActorId i) const {
    State s = previous;
    Ports& p = s.ports[i];
    p.begin();
    check_reads(s, i);
    for (int o = 0; o < p.output_count(); ++o) s.memory[p.output_register(o)][p.output_slot(o)] = -1;
    return s;
  }
  State end(const State& previous, ActorId i) const {
    State s = previous;
    Ports& p = s.ports[i];
    check_reads(s, i);
    for (int o = 0; o < p.output_count(); ++o) s.memory[p.output_register(o)][p.output_slot(o)] = p.pieces(o);
    p.complete([&](const Message& m) { send(s, i, m); });
    return s;
  }
  State end_launch(const State& previous) const {
    State s = previous;
    s.session_done.begin();
    s.session_done.complete([&](const Message& m) { send(s, session_actor, m); });
    s.launch_ended = true;
    return s;
  }
  void check_final(const State& s) {
    ++final_states_;
    ASSERT_TRUE(s.launch_ended) << "the launch is deadlocked:\n" << key(s);
    EXPECT_TRUE(s.session_start.ready()) << "a start register has no free slot after the launch";
    EXPECT_EQ(s.messages, messages_due_);
    for (ActorId i : s.ports.ids()) {
      EXPECT_EQ(s.ports[i].acts(), acts_due_[i]);
      for (int in = 0; in < s.ports[i].input_count(); ++in) EXPECT_EQ(s.ports[i].filled(in), 0);
      for (int o = 0; o < s.ports[i].output_count(); ++o)
        EXPECT_EQ(s.ports[i].free_slots(o), plan_.reg(s.ports[i].output_register(o)).slots) << "a slot was lost";
    }
  }

  const Plan& plan_;
  std::int64_t messages_due_;
  ById<ActorId, std::int64_t> acts_due_;
  std::set<std::string> seen_;
  std::size_t final_states_ = 0;
};

TEST(PortsInEveryOrder, AProducerAndAConsumerWorkWithOneToThreeSlots) {
  for (int slots : {1, 2, 3}) {
    PlanBuilder s;
    ActorId a = s.actor("a"), b = s.actor("b");
    s.start(a, 5);
    s.edge(a, {b}, slots);
    s.done(b, 5);
    std::size_t states = Explorer(s.plan).explore();
    EXPECT_GT(states, 40u * static_cast<std::size_t>(slots)) << "exploration was not exhaustive";
  }
}

TEST(PortsInEveryOrder, ASlotIsFreeWhenItsLastConsumerReturnsIt) {
  for (int slots : {1, 2}) {
    PlanBuilder s;
    ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c");
    s.start(a, 3);
    s.edge(a, {b, c}, slots);
    s.done(b, 3);
    s.done(c, 3);
    Explorer(s.plan).explore();
  }
}

TEST(PortsInEveryOrder, PathsOfDifferentLengthsMayJoin) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b"), d = s.actor("d");
  s.start(a, 3);
  s.edge(a, {b, d}, 2);
  s.edge(b, {d}, 1);
  s.done(d, 3);
  Explorer(s.plan).explore();
}

TEST(PortsInEveryOrder, AnAccumulatorFillsItsOutputOnEverySecondActAndKeepsAWeight) {
  PlanBuilder s;
  ActorId w = s.actor("w"), a = s.actor("a"), sum = s.actor("sum"), end = s.actor("end");
  s.start(w);
  s.start(a, 4);
  s.edge(w, {sum}, 1, 0, 1, 4);  // read by four acts
  s.edge(a, {sum}, 2);
  s.edge(sum, {end}, 2, 0, 2, 1);  // filled by every second act
  s.done(end, 2);
  Explorer(s.plan).explore();
}

TEST(PortsInEveryOrder, ADiamondCompletes) {
  Diamond g(1);
  Explorer(g.s.plan).explore();
}

}  // namespace
}  // namespace karez::plan
