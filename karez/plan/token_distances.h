// Computes the number of tokens between the end of one act and the beginning of another from a plan's registers and
// turns.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Actors that act one after another in every launch form a chain. For each actor and each chain, the class stores the
// first actor of the chain that waits for the given actor, in the same launch and in the next one. Chains are built,
// longest first, until no path has eight actors outside of chains or there are 64 chains. So a short search usually
// suffices to find the distance to an actor outside of chains. Time and memory grow with the number of actors times the
// number of chains; there are about as many chains as streams.
class TokenDistances {
 public:
  TokenDistances(const Plan& plan, const ById<ActorId, std::int64_t>& acts);

  // True if act k of each consumer reads the piece that act k of the producer fills. This requires that they act
  // equally often and that every act fills a piece.
  bool in_step(RegisterId id) const { return in_step_[id]; }
  // Returns the smallest number of tokens between the end of an act and the beginning of another: 0, 1, or 2 for two or
  // more. The distance from an actor to its own next act is 1.
  int tokens(ActorId from, ActorId to) const;
  // False if acts wait for each other in a cycle. The other functions must not be called then.
  bool is_acyclic() const { return order_.size() == steps_.size(); }
  // An actor that waits for another in the same launch has a larger rank.
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
  Steps steps_, reverse_steps_;  // after the actors come two nodes of the session: its start and its end
  ById<RegisterId, bool> in_step_;
  std::vector<std::size_t> order_;
  std::vector<int> topological_rank_;
  std::size_t chain_count_ = 0;
  std::vector<int> chain_, position_;  // by node; -1: in no chain
  // By node and chain: the first position in the chain that waits for the node, with no token (first_) and with at most
  // one token (later_).
  std::vector<int> first_, later_;
};

}  // namespace karez::plan
