// Runs a plan's calls in a plain loop, to measure their time without actors, messages or workers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/karez/inputs.h"
#include "tools/namespace.h"

namespace karez::tools {

struct ReplayTimes {
  double seconds = 0;  // seconds of a launch
  double inside = 0;   // the part of `seconds` that was spent in calls
};

void require_replayable(const Plan& plan);  // throws Error if the plan has a collective

// Runs the acts of one launch on the calling thread, in the order in which a single worker would run them. The
// arguments of each call are bound in advance. Collectives are rejected, because they need several devices.
class Replay {
 public:
  Replay(const Plan& plan, const KernelTable& kernels, const Feeds& feeds, const std::vector<VariableValue>& variables);
  ~Replay();
  ReplayTimes launch();
  std::size_t calls() const;  // calls of a launch; reading an input and fetching a result count as one each
  const std::vector<std::pair<std::string, HostArray>>& outputs() const;  // of the last launch

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez::tools
