// How many tokens lie between the end of one act and the beginning of another, as a plan's registers and turns say.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Acts that come one after the other in every launch stand in a lane; for each actor it is known which act of each lane
// is the first that waits for it, in this launch and in the next. Actors outside of lanes are walked over, which is
// short: lanes are taken, from the longest on, until no chain of eight is left. Time and memory grow with actors times
// lanes, whose number is about that of streams.
class TokenDistances {
 public:
  TokenDistances(const Plan& plan, const ById<ActorId, std::int64_t>& acts);

  // Act k of a reader takes what act k of the writer made: as many acts, and a piece in each.
  bool in_step(RegisterId id) const { return in_step_[id]; }
  // Fewest tokens between the end of an act and the beginning of another: 0, 1, or 2 for more. To its own next act: 1.
  int tokens(ActorId from, ActorId to) const;
  // False where acts wait for each other in a circle: then nothing else is known.
  bool is_acyclic() const { return order_.size() == steps_.size(); }
  // Whoever waits for another in the same launch has a larger one.
  int topological_rank(ActorId a) const { return topological_rank_[node(a)]; }

 private:
  struct Step {
    std::size_t node;
    int tokens;
  };
  using Steps = std::vector<std::vector<Step>>;
  static std::size_t node(ActorId a) { return static_cast<std::size_t>(a.index); }
  bool has_equal_acts(const Register& r) const;
  void add(std::size_t from, std::size_t to, int tokens);
  void add_register(RegisterId id);
  void add_sequence(std::vector<ActorId>& sequence);
  void sort();
  void build_chains();
  void compute_reachability();
  bool reaches(const std::vector<int>& by, std::size_t from, std::size_t to) const {
    return by[from * chain_count_ + static_cast<std::size_t>(chain_[to])] <= position_[to];
  }

  const Plan& plan_;
  const ById<ActorId, std::int64_t>& acts_;
  Steps steps_, reverse_steps_;  // the session is two nodes behind the actors: it starts, it ends
  ById<RegisterId, bool> in_step_;
  std::vector<std::size_t> order_;
  std::vector<int> topological_rank_;
  std::size_t chain_count_ = 0;
  std::vector<int> chain_, position_;  // by node; -1: in none
  std::vector<int> first_,
      later_;  // by node and lane: the first place that waits for it without a token, and with one at most
};

}  // namespace karez::plan
