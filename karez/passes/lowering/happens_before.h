// HappensBefore: the order of acts that the tokens and turns of a plan guarantee.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"
#include "karez/solve/token_reachability.h"

namespace karez::passes {

// Relates the acts of actors that act equally often in a launch: act k of one actor to acts k and k + 1 of another. Two
// nodes after the actors represent the session: one starts each launch, and one ends it.
class HappensBefore {
 public:
  explicit HappensBefore(const Plan& plan);

  // True if all actors of the register have the same number of acts, and each act uses a different piece.
  bool is_in_step(RegisterId id) const { return in_step_[id]; }
  // True if act k of `from` always ends before act k of `to` begins.
  bool before_same_act(ActorId from, ActorId to) const { return reachability_.before_same_act(from.index, to.index); }
  // True if act k of `from` always ends before act k + 1 of `to` begins.
  bool before_next_act(ActorId from, ActorId to) const { return reachability_.before_next_act(from.index, to.index); }
  const solve::TokenReachability& reachability() const { return reachability_; }

 private:
  std::int64_t acts(ActorId a) const { return a == session_actor ? 1 : acts_[a]; }
  ById<RegisterId, bool> registers_in_step() const;
  std::vector<solve::TokenEdge> edges() const;
  void add_turns(std::vector<solve::TokenEdge>& edges) const;

  const Plan& plan_;
  ById<ActorId, std::int64_t> acts_;
  ById<RegisterId, bool> in_step_;
  solve::TokenReachability reachability_;
};

}  // namespace karez::passes
