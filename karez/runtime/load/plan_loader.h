// Loads a plan: allocates its memory, prepares its kernels, connects its links and assigns its actors to workers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "karez/device/device.h"
#include "karez/kernels/kernel.h"
#include "karez/runtime/async_kernel.h"
#include "karez/runtime/load/links.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/variable_store.h"

namespace karez::runtime {

struct LoadOptions {
  const KernelTable* kernels = nullptr;
  std::vector<const AsyncKernel*> async;  // must outlive the loaded plan
  std::function<Device&(const PlanDevice&)> device;
  int number = 0;               // number of the plan in its session
  int in_flight = 1;            // maximum number of concurrent launches of the plan
  int max_workers = 1;          // maximum number of workers that compute; see karez/plan/stream_assignment.h
  std::vector<Mailbox*> boxes;  // by worker
  SourceReader* reader = nullptr;
  double slow_read = 0;  // seconds; if a read takes longer, the source reader does the next read
  bool poison = false;
  bool check_nan = false;
  bool order_arena_plans = true;  // order launches of plans that share an arena
  Delays delays = {};
  std::function<void(comm::Endpoint&)> on_endpoint = {};
  ConnectRank connect = {};  // null without other ranks
};

// Prepares a plan that `verify` has accepted, and runs its set-up. Adds the plan's new variables last, so the session
// is unchanged if this function throws.
std::unique_ptr<LoadedPlan> prepare(const Plan& plan, VariableStore& variables, const LoadOptions& options);

}  // namespace karez::runtime
