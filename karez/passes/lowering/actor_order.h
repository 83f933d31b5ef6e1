// ActorOrder: determines whether the registers of a plan order two actors.
#pragma once

#include <set>

#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"

namespace karez::passes {

class ActorOrder {
 public:
  // Actors before `first_fetch` are numbered in the order of segments.
  ActorOrder(const Plan& plan, ActorId first_fetch);

  // True if a path of registers leads from `first` to `then`.
  bool precedes(ActorId first, ActorId then);
  void add(ActorId first, ActorId then) { predecessors_[then].insert(first); }

 private:
  ActorId first_fetch_;
  ById<ActorId, std::set<ActorId>> predecessors_;
  ById<ActorId, int> visited_in_;  // the last search that visited the actor
  int searches_ = 0;
};

}  // namespace karez::passes
