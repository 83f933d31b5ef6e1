// The internal state of a world; users hold World and DeviceMesh.
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

// A variable with its owner, mesh and layout, fixed by the first function that used it. A variable that only tensors
// outside of compiled functions have used is provisional: a compiled function may still relocate it.
struct StoredVariable {
  Parameter::Identity owner;  // its name is the variable's name, in messages and files
  TensorType type;
  Mesh mesh;
  Layout layout;
  bool provisional = false;
};

// The thread that is tracing a function; guarded by WorldState::tracing.
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
  CommonSettings common_settings;  // agreed with the other ranks
  CostTable costs;
  graph::OpTable ops;
  kernels::KernelTable kernels;
  passes::Evaluate evaluate;
  PlanCache plans;             // guarded by a WorldLock
  data::ArrayCopyPool copies;  // of arguments
  Parameter counter = random_counter();
  int generation = 0;  // increased by reset, which deletes older plans
  int saves = 0;       // number of checkpoints, equal on all ranks

  // Guarded by a WorldLock: the plans of all functions, and the variables by name and ordinal at their first use by a
  // function; if two threads have made the same name and ordinal, the next free ordinal.
  using Key = std::pair<std::string, int>;
  std::map<Key, StoredVariable> variables;
  std::map<Parameter::Identity, Key, std::owner_less<Parameter::Identity>> keys;
  PendingWeights pending_weights;  // for variables that do not exist yet
  // For variables that will be created again on another mesh.
  std::vector<std::pair<Parameter, HostArray>> relocated_values;
  struct GatherPlan {
    std::string what;
    int plan = 0, generation = 0;
  };
  std::vector<std::pair<Mesh, LossScaleState>> loss_scales;  // in the order in which their meshes first needed one
  // Plans that bring a value to all ranks, see gather.h; the most recently used last.
  std::vector<GatherPlan> gather_plans;
  std::mutex mutex;
  std::atomic<std::thread::id> holder{};        // of the mutex
  std::atomic<bool> has_expired_owners{false};  // the owner of a variable no longer exists

  std::mutex tracing;  // guards every TraceOwner of this world, and `waiting_for`; held only briefly
  std::condition_variable trace_done;
  // Threads that wait for another thread's trace of a function.
  std::map<std::thread::id, const TraceOwner*> waiting_for;

  runtime::Session session;  // after the tables that it refers to, so that it is destroyed first
  // Programs of tensors outside of traces (expression_plans.h); destroyed before the session.
  std::shared_ptr<ExpressionPlans> expression_plans;

  // The compiler's options for a program on these meshes.
  passes::CompileOptions compile_options(const graph::Graph& graph) const;
  // Costs of single acts with kernels of such a team, for simulations in virtual time, in which devices share their
  // workers. Plans contain this table. The compiler's table also accounts for that sharing, since the compiler does not
  // simulate workers.
  CostTable act_costs(const graph::Graph& graph, int team) const;

  // Requires the lock.
  std::map<Key, StoredVariable>::const_iterator find(const Parameter& parameter) const;  // or variables.end()
  // The only variable of the name; an error if there are none or several.
  std::map<Key, StoredVariable>::const_iterator stored(std::string_view name) const;
  std::map<Key, StoredVariable>::const_iterator stored(const Parameter& parameter) const;
  Key free_key(const Parameter& parameter) const;
  // Its owner's current name and ordinal.
  static std::pair<std::string, int> display_name(const Key& key, const StoredVariable& variable);
  void erase(const Key& key);
  const LossScaleState& loss_scale(const Mesh& mesh);  // of functions of half precision on that mesh
  void add(const Key& key, const Parameter& parameter, Mesh mesh, Layout layout);
  void drop_expired();  // deletes variables with an owner that no longer exists
  void clear();         // deletes variables and plans, none of which may be in use
  // The same, and recovers from a failure: with several ranks all of them call it, and continue together.
  void restart(bool failed);

  void on_owner_destroyed();  // called on the thread that destroys the owner, with or without the lock

  // Called after the session has ended. A thread that is still inside a call has five seconds to leave it; otherwise
  // the connections stay open until the process ends.
  void end_ranks(bool well);
};

// Locks the world's plans and variables for this thread. User code that may call the world must not run under it: a
// second lock on one thread is an error. Unlocking deletes variables of owners that were destroyed during the lock.
class WorldLock {
 public:
  explicit WorldLock(WorldState& world);
  ~WorldLock();
  WorldLock(const WorldLock&) = delete;
  WorldLock& operator=(const WorldLock&) = delete;

 private:
  WorldState& world_;
};

// Permits this thread to run a function's body: one thread at a time, others wait. A function that calls itself, or a
// wait for a thread that waits for this one, is an error.
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
