// The internal state of a world; users hold World and DeviceMesh.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "karez/api/ranks/ranks.h"
#include "karez/api/state/expression_plan_cache.h"
#include "karez/api/state/plan_cache.h"
#include "karez/api/state/trace_lock.h"
#include "karez/api/state/variable_table.h"
#include "karez/api/trace/builtin_variables.h"
#include "karez/api/trace/deferred_reads.h"
#include "karez/api/trace/graph_cache.h"
#include "karez/api/trace/variable_sites.h"
#include "karez/api/world_options.h"
#include "karez/data/array_source.h"
#include "karez/kernels/kernel.h"
#include "karez/passes/compilation.h"
#include "karez/runtime/session.h"
#include "karez/runtime/stages/data_threads.h"

namespace karez {

struct SharedGraph;
struct GradientGraph;

// The cost table of a world, and its built-in and user-defined ops and kernels. These tables do not change.
struct WorldTables {
  CostTable costs;
  graph::OpTable ops;
  kernels::KernelTable kernels;
  passes::Evaluate evaluate;
};

// A plan that gathers a value on all ranks (see gather.h).
struct GatherPlan {
  std::string what;  // describes the value, with its type and layout
  int plan = 0, generation = 0;
};

struct WorldState : std::enable_shared_from_this<WorldState> {
  explicit WorldState(WorldOptions requested_options);
  ~WorldState();  // closes iterators that still exist

  const SitesReference sites;
  WorldOptions options;
  WorldRanks ranks;
  const CommonSettings common_settings;  // agreed with the other ranks
  const WorldTables tables;
  const Parameter counter = random_counter();
  data::ArrayCopyPool copies;  // of arguments

  // Guarded by a WorldLock.
  PlanCache plans;  // the plans of all functions
  VariableTable variables;
  std::vector<GatherPlan> gather_plans;  // the most recently used last
  int generation = 0;                    // increased by reset, which deletes older plans
  int saves = 0;                         // number of finished saves, equal on all ranks
  int streams = 0;                       // number of iterators over streams that the ranks compare
  // The bytes that elements of data sets may occupy on a rank, as known when the last program was compiled; if memory
  // is limited, the largest number of all ranks, so that all of them make the same plan.
  std::int64_t data_bytes = 0;

  int data_cores;  // that kernels of plans leave to data sets; constant unless WorldOptions::data_cores is automatic

  std::mutex mutex;                             // locked by WorldLock
  std::atomic<std::thread::id> holder{};        // the thread that holds the mutex
  std::atomic<bool> has_expired_owners{false};  // there is a variable whose owner no longer exists
  TraceQueue traces;

  const std::shared_ptr<runtime::DataThreads> data_threads;  // of streams; they may outlive the world
  std::shared_ptr<const void> environment_profile;           // written when the session ends
  runtime::Session session;  // declared after the tables to which it refers, so that it is destroyed first
  GraphCache<SharedGraph> shared_graphs;
  GraphCache<GradientGraph> gradient_graphs;
  ExpressionPlanCache expression_plans;  // destroyed before the session
  DeferredReads deferred_reads;

  void grow_to(int devices);  // throws beyond WorldOptions::device_limit
  // Returns the compiler's options for a program on the meshes of the graph. Throws if data sets need all memory.
  passes::CompileOptions compile_options(const graph::Graph& graph) const;
  // Returns the costs of single acts, with kernels that use `team` threads. Plans contain this table for simulations in
  // virtual time, which simulate the workers that devices share. The compiler does not simulate workers, so its own
  // table includes the effect of sharing.
  CostTable act_costs(const graph::Graph& graph, int team) const;

  // The following functions require the lock.
  void add_variable(const VariableKey& key, const Parameter& parameter, Mesh mesh, Layout layout);
  void erase_variable(const VariableKey& key);
  void drop_expired();  // deletes variables whose owner no longer exists
  void clear();         // deletes variables and plans, none of which may be in use
  // Clears the world, and recovers from a failure if `failed` is true. With several ranks, all of them must call
  // restart; they continue together.
  void restart(bool failed);

  void update_data_cores();  // if another number has been chosen automatically

  void on_owner_destroyed();  // called on the thread that destroys the owner, with or without the lock

  // Call after the session has ended. A thread that is still inside a call has five seconds to leave it; otherwise the
  // connections stay open until the process ends.
  void end_ranks(bool graceful);
};

// Locks the world's plans and variables for this thread. User code that may call the world must not run while the lock
// is held: a second lock on one thread is an error. Unlocking deletes variables whose owners were destroyed while the
// lock was held.
class WorldLock {
 public:
  explicit WorldLock(WorldState& world);
  ~WorldLock();
  WorldLock(const WorldLock&) = delete;
  WorldLock& operator=(const WorldLock&) = delete;

 private:
  WorldState& world_;
};

}  // namespace karez
