// A plan's calls in a plain loop: what they take without actors, messages or workers.
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
  double seconds = 0;  // of a launch
  double inside = 0;   // of these, in its calls
};

void require_replayable(const Plan& plan);

// One launch's acts in the order in which one worker does them, each call with its arguments bound beforehand. On the
// calling thread; collectives are refused, as they take several devices at once.
class Replay {
 public:
  Replay(const Plan& plan, const KernelTable& kernels, const Feeds& feeds, const std::vector<VariableValue>& variables);
  ~Replay();
  ReplayTimes launch();
  std::size_t calls() const;  // of a launch; reading an input and fetching a result count as one each
  const std::vector<std::pair<std::string, HostArray>>& outputs() const;  // of the last launch

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez::tools
