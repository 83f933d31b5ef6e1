// SessionPlan: a plan that a world's session has loaded.
#pragma once

#include <memory>
#include <utility>

#include "karez/api/state/world_state.h"

namespace karez {

// Keeps a plan loaded in a world's session during the lifetime of this object. A launch that is running when the object
// is destroyed still ends normally.
class SessionPlan {
 public:
  SessionPlan(std::shared_ptr<WorldState> world, const Plan& plan, bool check_nan = false)
      : world_(std::move(world)),
        number_(world_->session.load(plan, check_nan)) {}
  ~SessionPlan() { world_->session.unload(number_); }
  SessionPlan(const SessionPlan&) = delete;
  SessionPlan& operator=(const SessionPlan&) = delete;
  int number() const { return number_; }

 private:
  std::shared_ptr<WorldState> world_;
  int number_;
};

}  // namespace karez
