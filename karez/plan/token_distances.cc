// Builds chains of actors, the longest first, and finds the first actor of each chain that waits for a given actor.
#include "karez/plan/token_distances.h"

#include <algorithm>
#include <climits>
#include <map>
#include <tuple>

namespace karez::plan {
namespace {
constexpr int min_chain_length = 8;
constexpr std::size_t max_chains = 64;
constexpr int unreachable = INT_MAX;
}  // namespace

TokenDistances::TokenDistances(const Plan& plan, const ById<ActorId, std::int64_t>& acts)
    : plan_(plan),
      acts_(acts),
      steps_(plan.actors.size() + 2),
      reverse_steps_(steps_.size()),
      in_step_(plan.registers.size()) {
  for (RegisterId r : plan.registers.ids()) in_step_[r] = has_equal_acts(plan.registers[r]);
  for (ActorId a : plan.actors.ids())
    for (const Port& port : plan.actors[a].outputs)
      if (port.period != 1) in_step_[port.reg] = false;
  for (RegisterId r : plan.registers.ids()) add_register(r);
  std::map<std::tuple<CommunicatorId, DeviceId, std::int64_t>, std::vector<ActorId>> sequences;
  for (ActorId a : plan.actors.ids())
    if (const auto& c = plan.actors[a].collective)
      sequences[{c->communicator, plan.stream(plan.actors[a].stream).device, acts[a]}].push_back(a);
  for (auto& [key, sequence] : sequences) add_sequence(sequence);
  sort();
  if (!is_acyclic()) return;
  build_chains();
  compute_reachability();
}

bool TokenDistances::has_equal_acts(const Register& r) const {
  auto acts = [&](ActorId a) { return a == session_actor ? 1 : acts_[a]; };
  return std::all_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) { return acts(c) == acts(r.producer); });
}

int TokenDistances::tokens(ActorId from, ActorId to) const {
  if (from == to) return 1;
  const std::size_t begin = node(from), end = node(to);
  auto to_chain = [&](std::size_t at) { return reaches(first_, begin, at) ? 0 : reaches(later_, begin, at) ? 1 : 2; };
  if (chain_[end] >= 0) return to_chain(end);
  int min_tokens = 2;
  std::vector<std::pair<std::size_t, int>> visited = {{end, 0}};
  for (std::size_t i = 0; i < visited.size() && min_tokens > 0; ++i)
    for (const Step& step : reverse_steps_[visited[i].first]) {
      const std::pair at(step.node, visited[i].second + step.tokens);
      if (at.second >= min_tokens || std::find(visited.begin(), visited.end(), at) != visited.end()) continue;
      if (step.node == begin) min_tokens = at.second;
      else if (chain_[step.node] >= 0) min_tokens = std::min(min_tokens, at.second + to_chain(step.node));
      else visited.push_back(at);
    }
  return min_tokens;
}

void TokenDistances::add(std::size_t from, std::size_t to, int tokens) {
  steps_[from].push_back({to, tokens});
  reverse_steps_[to].push_back({from, tokens});
}

void TokenDistances::add_register(RegisterId id) {
  const Register& r = plan_.reg(id);
  if (!in_step(id)) return;
  const std::size_t from = r.producer == session_actor ? plan_.actors.size() : node(r.producer);
  for (ActorId c : r.consumers) {
    const std::size_t to = c == session_actor ? plan_.actors.size() + 1 : node(c);
    add(from, to, 0);
    // A slot is returned when all consumers have read it; with one slot, the next act waits for this consumer.
    if (r.slots == 1) add(to, from, 1);
  }
}

// Adds steps between the collectives of one sequence that act equally often. Their turns determine whether act k of one
// precedes act k or act k + 1 of another. For collectives that act once, steps between neighbours suffice.
void TokenDistances::add_sequence(std::vector<ActorId>& sequence) {
  auto turns = [&](ActorId a) -> const std::vector<int>& { return plan_.actor(a).collective->turns; };
  if (acts_[sequence[0]] == 1) {
    std::sort(sequence.begin(), sequence.end(), [&](ActorId a, ActorId b) { return turns(a) < turns(b); });
    for (std::size_t i = 1; i < sequence.size(); ++i) add(node(sequence[i - 1]), node(sequence[i]), 0);
    return add(node(sequence.back()), node(sequence[0]), 1);
  }
  for (ActorId a : sequence)
    for (ActorId b : sequence) {
      const auto &x = turns(a), &y = turns(b);
      if (std::equal(x.begin(), x.end(), y.begin(), y.end(), std::less<>())) add(node(a), node(b), 0);
      else if (std::equal(x.begin(), x.end() - 1, y.begin() + 1, y.end(), std::less<>())) add(node(a), node(b), 1);
    }
}

void TokenDistances::sort() {
  std::vector<int> waiting(steps_.size(), 0);
  for (const auto& steps : steps_)
    for (const Step& step : steps) waiting[step.node] += step.tokens == 0;
  for (std::size_t n = 0; n < steps_.size(); ++n)
    if (waiting[n] == 0) order_.push_back(n);
  for (std::size_t i = 0; i < order_.size(); ++i)
    for (const Step& step : steps_[order_[i]])
      if (step.tokens == 0 && --waiting[step.node] == 0) order_.push_back(step.node);
  topological_rank_.assign(steps_.size(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) topological_rank_[order_[i]] = static_cast<int>(i);
}

// Builds one chain after another: the path with the most actors that are in no chain yet.
void TokenDistances::build_chains() {
  constexpr std::size_t no_node = SIZE_MAX;
  chain_.assign(steps_.size(), -1);
  position_.assign(steps_.size(), -1);
  std::vector<int> length(steps_.size());
  std::vector<std::size_t> predecessor(steps_.size());
  for (; chain_count_ < max_chains; ++chain_count_) {
    std::size_t last = order_[0];
    for (std::size_t n : order_) {
      length[n] = 0, predecessor[n] = no_node;
      for (const Step& step : reverse_steps_[n])
        if (step.tokens == 0 && length[step.node] > length[n])
          length[n] = length[step.node], predecessor[n] = step.node;
      length[n] += chain_[n] < 0;
      if (length[n] > length[last]) last = n;
    }
    if (length[last] < min_chain_length && chain_count_ > 0) return;
    for (std::size_t n = last; n != no_node; n = predecessor[n])
      if (chain_[n] < 0) chain_[n] = static_cast<int>(chain_count_), position_[n] = length[n] - 1;
  }
}

void TokenDistances::compute_reachability() {
  first_.assign(steps_.size() * chain_count_, unreachable);
  auto lower = [&](std::vector<int>& target, std::size_t n, const std::vector<int>& from, std::size_t source) {
    for (std::size_t l = 0; l < chain_count_; ++l)
      target[n * chain_count_ + l] = std::min(target[n * chain_count_ + l], from[source * chain_count_ + l]);
  };
  for (auto n = order_.rbegin(); n != order_.rend(); ++n) {
    if (chain_[*n] >= 0) first_[*n * chain_count_ + static_cast<std::size_t>(chain_[*n])] = position_[*n];
    for (const Step& step : steps_[*n])
      if (step.tokens == 0) lower(first_, *n, first_, step.node);
  }
  later_ = first_;
  for (auto n = order_.rbegin(); n != order_.rend(); ++n)
    for (const Step& step : steps_[*n]) lower(later_, *n, step.tokens == 0 ? later_ : first_, step.node);
}

}  // namespace karez::plan
