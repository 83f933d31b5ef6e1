// A plan that is ready to run: its memory is allocated, its kernels are prepared, its addresses are computed, and its
// actors are assigned to workers.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/comm/transport/local_hub.h"
#include "karez/device/arena.h"
#include "karez/device/device.h"
#include "karez/plan/collective_sequence.h"
#include "karez/plan/plan.h"
#include "karez/plan/ready_queue.h"
#include "karez/runtime/actor/actor_state.h"
#include "karez/runtime/delays.h"
#include "karez/runtime/device_value.h"
#include "karez/runtime/launch/launch_record.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/variables.h"
#include "karez/runtime/worker/mailbox.h"

namespace karez::runtime {

class SourceReader;
struct WorkerPlan;
struct LoadedPlan;

// The collectives of one communicator on one device.
struct SequenceState {
  SequencePosition* position = nullptr;
  comm::Endpoint* endpoint = nullptr;
  Mail arrival;
  std::atomic<bool> arrival_posted{false};  // the mail has not been taken yet
  std::vector<ActorState*> by_position;
  ActorState* running = nullptr;
  std::int64_t sent_before = 0;  // the bytes that the endpoint had sent when the last collective ended
};

// The actors of one plan that one worker serves.
struct WorkerPlan {
  LoadedPlan* loaded = nullptr;
  int worker = 0;
  std::vector<std::unique_ptr<ActorState>> actors;  // by local index
  std::vector<ActorState*> local;  // by actor id + 1; null for the session (at 0) and for actors of other workers
  ReadyQueue ready;
  ReadyQueue held_collectives;    // ready collectives of failed launches that not all ranks have poisoned (failure.h)
  bool runnable = false;          // is in its worker's list of runnable plans
  std::vector<char> stream_busy;  // by stream; empty unless a kernel is asynchronous or acts are delayed
  std::vector<ReadyQueue> deferred;  // by stream: ready actors that wait for the stream, which is busy
  std::vector<std::unique_ptr<SequenceState>> sequences;
  std::map<CollectiveKind, SingleWriterCounter> sent_bytes;
  SingleWriterCounter acts, messages;
  Mail attach, abandon, resume, detach;
  std::atomic<bool> resume_posted{false};  // the mail has not been taken yet
  bool unloading = false;                  // no longer served, so mail that still arrives has no effect
};

// The ports of the session in a plan. Worker 0 serves them.
struct SessionPorts {
  explicit SessionPorts(const Plan& plan)
      : session_start(Ports::session_start(plan)),
        session_done(Ports::session_done(plan)) {}
  Ports session_start, session_done;
  std::vector<Mail> start_mails, done_mails;  // by lane
  SingleWriterCounter messages;
};

struct PlanBinding {
  std::shared_ptr<ShardLayout> layout;  // the parts that inputs read, or that outputs fetch
  std::string where;
};

struct LoadedPlan {
  LoadedPlan(const Plan& p, int in_flight)
      : plan(p),
        session_ports(plan),
        collective_sequence(plan),
        active_launches(std::bit_ceil(static_cast<std::size_t>(in_flight))) {}

  ActorState& state(ActorId id) { return *worker_plan_of[id]->local[id.index + 1]; }
  ActiveLaunch& active_launch(std::int64_t launch) {
    return active_launches[static_cast<std::size_t>(launch) & (active_launches.size() - 1)];
  }
  // Returns null if the launch is not running: an actor without inputs may act before its first launch.
  LaunchRecord* record(std::int64_t launch) {
    const ActiveLaunch& active = active_launch(launch);
    return launch >= 0 && active.number.load(std::memory_order_acquire) == launch
               ? active.record.load(std::memory_order_acquire)
               : nullptr;
  }

  // Called before an act of this launch writes a variable.
  void note_write(std::int64_t launch) {
    std::int64_t last = last_write.load(std::memory_order_relaxed);
    while (last < launch && !last_write.compare_exchange_weak(last, launch, std::memory_order_relaxed)) continue;
  }

  Plan plan;
  int number = 0;          // number of the plan in the session
  std::uint64_t work = 1;  // a hash that is equal on ranks with the same calls; never 0
  SessionPorts session_ports;
  CollectiveSequence collective_sequence;
  std::vector<Memory> memory;                               // blocks that are neither variables nor in an arena
  std::vector<Arena::Lease> arenas;                         // by device
  ById<RegisterId, std::vector<std::atomic<int>>> readers;  // by slot: readers to come; only with poison
  ById<RegisterId, std::vector<std::byte*>>
      slot_addresses;  // by slot: the addresses at which readers find the data of inputs, and of results
  std::vector<std::shared_ptr<Variable>> variables, variables_of_arenas;
  std::vector<VariableAccess> accesses;  // accesses of variables and arenas, sorted by variable
  ById<BlockId, std::byte*> block_address;
  ById<DeviceId, Device*> devices;
  // `hubs` comes after `worker_plans`, because a link notifies a sequence until it is closed.
  std::vector<std::unique_ptr<WorkerPlan>> worker_plans;  // by worker; null if a worker has no actor of the plan
  ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> hubs;
  ById<ActorId, WorkerPlan*> worker_plan_of;
  std::vector<Mailbox*> boxes;  // by worker
  SourceReader* reader = nullptr;
  double slow_read = 0;  // seconds
  bool check_nan = false;
  // While a profile is on: the ticks of a call whose CPU time is measured often (call_timer.h); otherwise 0.
  std::atomic<std::int64_t> long_call{0};
  std::atomic<bool> observes_calls{false};  // check_nan or long_call is set
  Delays delays;
  bool fits_caller = false;  // the thread that launches the plan may also run it (session_caller.cc)
  const std::shared_ptr<LaunchHabit> habit = std::make_shared<LaunchHabit>();
  std::vector<PlanBinding> inputs, outputs;
  std::vector<ActiveLaunch> active_launches;  // a ring, indexed by the number of the launch
  std::int64_t started = 0, ended = 0;        // numbers of launches; used by worker 0
  // Used by worker 0: op and number of each launch that failed and ended on this rank before all ranks had poisoned it.
  std::vector<std::pair<std::uint64_t, std::int64_t>> unreleased;
  static constexpr std::int64_t none = INT64_MAX;
  std::atomic<std::int64_t> poisoned{none};  // from this launch on, acts complete without running kernels
  std::atomic<std::int64_t> released{none};  // from this launch on, collectives run even if poisoned
  std::atomic<std::int64_t> last_write{-1};  // the last launch in which an act that writes a variable ran

  // Notifies the other ranks that the launch of this op has failed here; null without other ranks.
  std::function<void(std::uint64_t op)> invalidate;
  bool runs_ahead = false;             // an actor has no input, so it may act between launches
  std::atomic<bool> abandoned{false};  // a collective broke, so members no longer wait for each other
  std::mutex error_mutex;
  std::optional<Error> collective_error;  // the reason why collectives were abandoned

  // State of a plan that is being unloaded. Used by worker 0, except for `unloaded`, which the session's mutex guards.
  Mail unload;
  int queued = 0;  // launches of this plan that are not over
  bool unloading = false;
  int unload_round = 0, attached = 0;  // the round of detaching, and the number of worker plans that have not answered
  bool unloaded = false;               // no worker will use the plan again
};

// A request to end all running launches on this rank, because a rank failed or the session ends immediately.
struct LaunchAbort {
  Mail mail;
  Error error{""};
  std::vector<std::shared_ptr<LoadedPlan>> plans;
};

}  // namespace karez::runtime
