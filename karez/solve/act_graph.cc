// Builds the graph of waits between the acts of a launch and finds its critical cycle.
#include "karez/solve/act_graph.h"

#include <algorithm>
#include <cmath>

#include "karez/base/error.h"

namespace karez::solve {
namespace {
using WaitKind = SlotCycle::WaitKind;

constexpr int slot_limit = 32767;  // per register, because messages of the runtime store a slot number in 16 bits

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

void check_register(const SlotProblem& p, int r) {
  const auto& reg = p.registers[r];
  const int actors = static_cast<int>(p.actors.size());
  auto check_end = [&](int actor, int period, const char* role) {
    require(actor >= 0 && actor < actors, "slots: register ", r, " names ", role, " ", actor,
            ", but the number of actors is ", actors);
    require(period >= 1 && p.actors[actor].acts % period == 0, "slots: register ", r, " has period ", period, " at ",
            role, " ", actor, ", which acts ", p.actors[actor].acts,
            " times a launch: the number of acts must be a multiple of the period");
    return p.actors[actor].acts / period;
  };
  int pieces = check_end(reg.producer, reg.period, "producer");
  require(!reg.consumers.empty(), "slots: register ", r, " has no consumer");
  for (const auto& c : reg.consumers) {
    int read = check_end(c.actor, c.period, "consumer");
    require(read == pieces, "slots: register ", r, " gets ", pieces, " pieces a launch from actor ", reg.producer,
            ", but actor ", c.actor, " reads ", read);
    require(is_time(c.arrives) && is_time(c.returns), "slots: the delays of register ", r, " to actor ", c.actor,
            " and back must be finite and at least 0, got ", c.arrives, " and ", c.returns, " seconds");
  }
  require(reg.bytes >= 0, "slots: the slots of register ", r, " must have at least 0 bytes, got ", reg.bytes);
  require(reg.min_slots >= 1 && reg.min_slots <= reg.max_slots && reg.max_slots <= slot_limit,
          "slots: the range of slots of register ", r, " must not be empty and must lie within 1 to ", slot_limit,
          ", got ", reg.min_slots, " to ", reg.max_slots);
  require(reg.filled >= 0 && reg.filled <= reg.max_slots, "slots: register ", r, " must begin with 0 to ",
          reg.max_slots, " filled slots, got ", reg.filled);
}

// Checks that an order has all acts of each of its actors, with consecutive numbers.
void check_order(const SlotProblem& p, int s) {
  std::vector<std::int64_t> act_counts(p.actors.size(), 0), last(p.actors.size(), 0);
  constexpr std::int64_t max_act = std::int64_t{1} << 40;
  for (const auto& a : p.streams[s].order) {
    require(a.actor >= 0 && a.actor < static_cast<int>(p.actors.size()), "slots: stream ", s, " orders actor ", a.actor,
            ", but the number of actors is ", p.actors.size());
    require(a.act > -max_act && a.act < max_act, "slots: stream ", s, " orders act ", a.act, " of actor ", a.actor,
            "; act numbers must be above -2^40 and below 2^40");
    require(act_counts[a.actor]++ == 0 || a.act == last[a.actor] + 1, "slots: stream ", s, " orders act ", a.act,
            " of actor ", a.actor, " after act ", last[a.actor], "; the acts of an actor must be consecutive");
    last[a.actor] = a.act;
  }
  for (const auto& a : p.streams[s].order)
    require(act_counts[a.actor] == p.actors[a.actor].acts, "slots: stream ", s, " orders ", act_counts[a.actor],
            " acts of actor ", a.actor, ", which acts ", p.actors[a.actor].acts, " times a launch");
}
}  // namespace

ActGraph::ActGraph(const SlotProblem& problem, const SlotLimits& limits) : problem_(problem) {
  const int actors = static_cast<int>(problem.actors.size());
  std::int64_t bytes = 0;
  double seconds = 0;
  for (int a = 0; a < actors; ++a) {
    const auto& actor = problem.actors[a];
    require(is_time(actor.seconds), "slots: the duration of actor ", a, " must be finite and at least 0, got ",
            actor.seconds, " seconds");
    require(actor.acts >= 1, "slots: actor ", a, " must act at least once in a launch, got ", actor.acts);
    seconds += actor.seconds * actor.acts;
  }
  const std::int64_t acts = acts_of(problem);
  require(acts <= limits.acts, "slots: a launch has ", acts, " acts; the limit is ", limits.acts);
  for (int r = 0; r < static_cast<int>(problem.registers.size()); ++r) {
    check_register(problem, r);
    const auto& reg = problem.registers[r];
    pieces_.push_back(problem.actors[reg.producer].acts / reg.period);
    bytes = checked_add(bytes, checked_mul(reg.bytes, reg.max_slots));
    for (const auto& c : reg.consumers) seconds += (c.arrives + c.returns) * static_cast<double>(pieces_.back());
  }
  require(std::isfinite(seconds), "slots: the sum of all durations and delays in a launch is not finite");

  for (int a = 0; a < actors; ++a) {
    first_.push_back(static_cast<int>(actor_.size()));
    actor_.resize(actor_.size() + problem.actors[a].acts, a);
  }
  for (int a = 0; a < actors; ++a)
    for (int i = 0; i < problem.actors[a].acts; ++i) add(fixed_, a, i, a, i + 1, 0, {WaitKind::actor, a});
  for (int r = 0; r < static_cast<int>(problem.registers.size()); ++r) {
    const auto& reg = problem.registers[r];
    for (const auto& c : reg.consumers)
      for (std::int64_t piece = 0; piece < pieces_[r]; ++piece)
        add(fixed_, reg.producer, (piece - reg.filled + 1) * reg.period - 1, c.actor, piece * c.period, c.arrives,
            {WaitKind::data, r});
  }
  for (int s = 0; s < static_cast<int>(problem.streams.size()); ++s) add_stream(s);
}

void ActGraph::add_stream(int s) {
  const auto& stream = problem_.streams[s];
  require(stream.actors.empty() || stream.order.empty(), "slots: stream ", s, " has both actors and an order of acts");
  check_order(problem_, s);
  for (std::size_t i = 0; i < stream.order.size(); ++i) {
    auto current = stream.order[i], next = stream.order[(i + 1) % stream.order.size()];
    if (i + 1 == stream.order.size()) next.act += problem_.actors[next.actor].acts;
    add(fixed_, current.actor, current.act, next.actor, next.act, 0, {WaitKind::stream, s});
  }
  SlotCycle load;
  load.tokens = 1;
  std::vector<char> act_counts(problem_.actors.size(), 0);
  for (int a : stream.actors) {
    require(a >= 0 && a < static_cast<int>(problem_.actors.size()), "slots: stream ", s, " lists actor ", a,
            ", but the number of actors is ", problem_.actors.size());
    require(act_counts[a]++ == 0, "slots: stream ", s, " lists actor ", a, " twice");
    load.seconds += problem_.actors[a].seconds * problem_.actors[a].acts;
    load.steps.push_back({a, 0, WaitKind::stream, s});
  }
  load.interval = load.seconds;
  if (load.seconds > load_.seconds) load_ = std::move(load);
}

// Adds an edge: act `next_act` of actor `next` waits until `delay` seconds after the end of act `from_act` of actor
// `from`. The number of tokens of the edge is the number of launches by which the waiting act is later.
void ActGraph::add(WaitEdges& to, int from, std::int64_t from_act, int next, std::int64_t next_act, double delay,
                   Wait wait) const {
  std::int64_t from_acts = problem_.actors[from].acts, next_acts = problem_.actors[next].acts;
  std::int64_t from_launch = floor_div(from_act, from_acts), next_launch = floor_div(next_act, next_acts);
  int tail = first_[from] + static_cast<int>(from_act - from_launch * from_acts);
  int head = first_[next] + static_cast<int>(next_act - next_launch * next_acts);
  to.edges.push_back({tail, head, problem_.actors[from].seconds + delay, static_cast<long>(next_launch - from_launch)});
  to.waits.push_back(wait);
  to.backward |= to.edges.back().tokens < 0;
}

SlotCycle ActGraph::cycle_of(const WaitEdges& all, const std::vector<int>& edges) const {
  SlotCycle out;
  for (int e : edges) {
    int node = all.edges[e].from, actor = actor_[node];
    out.seconds += all.edges[e].time;
    out.tokens += all.edges[e].tokens;
    out.steps.push_back({actor, node - first_[actor], all.waits[e].kind, all.waits[e].index});
  }
  if (!edges.empty())
    out.interval =
        out.tokens > 0 ? out.seconds / static_cast<double>(out.tokens) : std::numeric_limits<double>::infinity();
  return out;
}

namespace {
// Shifts the launch numbers of acts so that no edge has a negative number of tokens (retiming by shortest paths); the
// tokens of cycles do not change. If this is impossible, returns the edges of a cycle with a negative number of tokens.
std::vector<int> retime(int nodes, std::vector<TimedEdge>& edges) {
  std::vector<std::int64_t> shift(nodes, 0);
  std::vector<int> last_edge(nodes, -1);
  int changed_node = -1;
  for (int round = 0; round <= nodes; ++round) {
    changed_node = -1;
    for (int e = 0; e < static_cast<int>(edges.size()); ++e) {
      const TimedEdge& edge = edges[e];
      if (shift[edge.from] + edge.tokens >= shift[edge.to]) continue;
      shift[edge.to] = shift[edge.from] + edge.tokens;
      last_edge[edge.to] = e;
      changed_node = edge.to;
    }
    if (changed_node < 0) break;
  }
  if (changed_node < 0) {
    for (TimedEdge& e : edges) e.tokens += static_cast<long>(shift[e.from] - shift[e.to]);
    return {};
  }
  for (int i = 0; i < nodes; ++i)
    changed_node = edges[last_edge[changed_node]].from;  // go back until the node is on the cycle
  std::vector<int> cycle;
  for (int node = changed_node; cycle.empty() || node != changed_node; node = edges[last_edge[node]].from)
    cycle.push_back(last_edge[node]);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}
}  // namespace

SlotCycle ActGraph::critical_cycle(std::span<const int> slots) const {
  WaitEdges all = fixed_;
  for (int r = 0; r < static_cast<int>(slots.size()); ++r) {
    const auto& reg = problem_.registers[r];
    for (const auto& c : reg.consumers)
      for (std::int64_t piece = 0; piece < pieces_[r]; ++piece)
        add(all, c.actor, (piece + reg.filled - slots[r] + 1) * c.period - 1, reg.producer, piece * reg.period,
            c.returns, {WaitKind::slot, r});
  }
  const int nodes = static_cast<int>(actor_.size());
  SlotCycle slowest;
  if (all.backward) {
    std::vector<TimedEdge> retimed = all.edges;
    std::vector<int> negative_cycle = retime(nodes, retimed);
    if (!negative_cycle.empty()) return cycle_of(all, negative_cycle);
    slowest = cycle_of(all, max_cycle_ratio(nodes, retimed).cycle);
  } else {
    slowest = cycle_of(all, max_cycle_ratio(nodes, all.edges).cycle);
  }
  return load_.seconds > slowest.interval ? load_ : slowest;
}

}  // namespace karez::solve
