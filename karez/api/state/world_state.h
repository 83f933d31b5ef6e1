// What a world owns, as `compile` sees it; users hold World and DeviceMesh.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "karez/api/ranks/ranks.h"
#include "karez/api/state/pending_weights.h"
#include "karez/api/state/plan_cache.h"
#include "karez/api/trace/trace.h"
#include "karez/api/world.h"
#include "karez/data/array_source.h"
#include "karez/kernels/kernel.h"
#include "karez/passes/compilation.h"
#include "karez/runtime/session.h"

namespace karez {

// Whose a variable is and where it lies: fixed by the first function that used it. One that tensors outside of compiled
// functions alone have used may still be brought to where a function wants it.
struct StoredVariable {
  Parameter::Identity owner;  // whose name is the variable's, for people and files
  TensorType type;
  Mesh mesh;
  Layout layout;
  bool provisional = false;
};

// Which thread is tracing a function; guarded by WorldState::tracing.
struct TraceOwner {
  std::string function;
  std::thread::id thread;
};

struct ExpressionPlans;

struct WorldState : std::enable_shared_from_this<WorldState> {
  explicit WorldState(WorldOptions chosen);

  const SitesReference sites;
  WorldOptions options;
  WorldRanks ranks;
  CommonSettings common_settings;  // with the other ranks
  CostTable costs;
  graph::OpTable ops;
  kernels::KernelTable kernels;
  passes::Evaluate evaluate;
  PlanCache plans;             // with a WorldLock
  data::ArrayCopyPool copies;  // of arguments
  Parameter counter = random_counter();
  int generation = 0;  // raised by reset: older plans are gone
  int saves = 0;       // of checkpoints, with the other ranks

  // Guarded by a WorldLock: the plans of all functions, and the variables by the name and ordinal that they had when a
  // function first used them; the next ordinal that is free where threads have made two with the same.
  using Key = std::pair<std::string, int>;
  std::map<Key, StoredVariable> variables;
  std::map<Parameter::Identity, Key, std::owner_less<Parameter::Identity>> keys;
  PendingWeights pending_weights;                                 // for variables that are none yet
  std::vector<std::pair<Parameter, HostArray>> relocated_values;  // for those that are to lie elsewhere, likewise
  struct GatherPlan {
    std::string what;
    int plan = 0, generation = 0;
  };
  std::vector<std::pair<Mesh, LossScaleState>> loss_scales;  // in the order in which their meshes first wanted one
  std::vector<GatherPlan> gather_plans;  // plans that bring a value to all ranks, see gather.h; the latest used last
  std::mutex mutex;
  std::atomic<std::thread::id> holder{};        // of the mutex
  std::atomic<bool> has_expired_owners{false};  // the owner of a variable is no more

  std::mutex tracing;  // guards every TraceOwner of this world, and `waiting_for`; held for a moment only
  std::condition_variable trace_done;
  std::map<std::thread::id, const TraceOwner*> waiting_for;  // threads for another one's trace of a function

  runtime::Session session;  // behind the tables it points to: it is gone before them
  std::shared_ptr<ExpressionPlans>
      expression_plans;  // what tensors outside of traces ran (expression_plans.h); gone before the session

  // What the compiler is told for a program on these meshes.
  passes::CompileOptions compile_options(const graph::Graph& graph) const;
  // What acts by calls of such a team cost, each by itself: for runs in virtual time, in which devices take turns on
  // their workers. Plans keep it; the compiler's is the same but for turns, which it has no workers to see.
  CostTable act_costs(const graph::Graph& graph, int team) const;

  // With the lock.
  std::map<Key, StoredVariable>::const_iterator find(const Parameter& parameter) const;  // or variables.end()
  std::map<Key, StoredVariable>::const_iterator stored(
      std::string_view name) const;  // the only one of the name; otherwise an error
  std::map<Key, StoredVariable>::const_iterator stored(const Parameter& parameter) const;
  Key free_key(const Parameter& parameter) const;
  static std::pair<std::string, int> display_name(const Key& key,
                                                  const StoredVariable& variable);  // its owner's name and ordinal now
  void erase(const Key& key);
  const LossScaleState& loss_scale(const Mesh& mesh);  // of functions of half precision there
  void add(const Key& key, const Parameter& parameter, Mesh mesh, Layout layout);
  void drop_expired();  // the variables whose owners are no more
  void clear();         // variables and plans; none is under way
  // Likewise, and with them a failure: of several ranks all do so, and go on together.
  void restart(bool failed);

  void on_owner_destroyed();  // by whoever let it go, with the lock or without

  // Once the session has ended. A thread that is still inside a call has five seconds to leave it; otherwise the
  // connections go with the process.
  void end_ranks(bool well);
};

// Holds the world's plans and variables for this thread. Nothing of the user's that may ask the world runs under it: a
// second lock on one thread is an error. What died meanwhile is forgotten at the end.
class WorldLock {
 public:
  explicit WorldLock(WorldState& world);
  ~WorldLock();
  WorldLock(const WorldLock&) = delete;
  WorldLock& operator=(const WorldLock&) = delete;

 private:
  WorldState& world_;
};

// This thread's turn to run a function's body: one thread at a time, others wait. A function that calls itself, or
// waits for a thread that waits for this one, is an error.
class TraceLock {
 public:
  TraceLock(WorldState& world, TraceOwner& traced);
  ~TraceLock();
  TraceLock(const TraceLock&) = delete;
  TraceLock& operator=(const TraceLock&) = delete;

 private:
  WorldState& world_;
  TraceOwner& traced_;
};

}  // namespace karez
