// A plan made ready to run: memory allocated, kernels prepared, addresses computed, actors dealt out to workers.
#pragma once

#include <atomic>
#include <bit>
#include <climits>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "karez/comm/collective.h"
#include "karez/comm/local_hub.h"
#include "karez/device/device.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/collective_sequence.h"
#include "karez/plan/plan.h"
#include "karez/plan/ports.h"
#include "karez/plan/ready_queue.h"
#include "karez/runtime/device_value.h"
#include "karez/runtime/links.h"
#include "karez/runtime/mailbox.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/session.h"

namespace karez::runtime {

class SourceReader;
struct WorkerPlan;
struct LoadedPlan;

// A counter that one thread writes and others may read: an ordinary addition.
class SingleWriterCounter {
 public:
  void add(std::int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct PreparedCall {
  PreparedKernel run;                  // or
  const AsyncKernel* async = nullptr;  // this
  std::vector<std::byte*> in, out;     // addresses; patched where an operand's slot moves
  std::byte* workspace = nullptr;
  const Call* call = nullptr;
  bool writes_state = false;  // a result lies in a variable
  KernelArgs args() const { return {in, out, workspace}; }
};

// Addresses that depend on the slot a port works on: *cell = base + slot * stride, or, where its bytes may lie
// elsewhere, lent[slot] + offset.
struct Patch {
  std::byte** cell = nullptr;
  std::byte* base = nullptr;
  std::int64_t stride = 0, offset = 0;
};
struct PatchedPort {
  bool output = false;
  int port = 0;
  int slot = -1;  // that the cells hold now
  std::byte* const* slot_addresses = nullptr;
  std::vector<Patch> patches;
};

// Memory that an act poisons: before a call that writes it anew, or when its last reader is done.
struct PoisonRange {
  static constexpr int first = -1, last = INT_MAX;
  int call = first;  // before it (before `first`: when the act begins) or, if dead, behind it (behind `last`: when the
                     // act ends)
  bool dead = false;
  int port = -1;  // of a register; else a fixed place
  bool output = false;
  std::byte* base = nullptr;
  std::int64_t stride = 0, bytes = 0;
  std::atomic<int>* readers =
      nullptr;  // by slot: consumers that have yet to read it, which the one that writes it sets
  int consumers = 0;
};

struct BoundOperand {
  std::byte* address = nullptr;
  const View* view = nullptr;
  std::vector<std::vector<std::int64_t>> begin;  // of its slices, by lot
  std::size_t shard = 0;                         // of the binding's spread
  const View* target_view = nullptr;             // fetch: as it lies in the result,
  std::size_t target = 0;                        // at this one of LaunchRecord::targets
  std::byte** slot_addresses =
      nullptr;    // input: by slot of its register, where readers find what was fed: there, or in the slot itself
  int port = -1;  // of that register
};

// What an act of it does.
enum class WorkKind : std::uint8_t {
  none,
  calls,
  async_call,
  read,
  fetch,
  collective
};  // later: a kernel that finishes later

// One actor as its worker sees it. What every act touches stands first.
struct ActorState {
  ActorState(const Plan& plan, ActorId actor, const PortNumbers& places)
      : ports(plan, actor, places),
        id(actor),
        actor(&plan.actor(actor)) {}

  Ports ports;
  ActorId id;
  int local_index = 0;  // in its part's pick order
  const Actor* actor;
  WorkKind work = WorkKind::none;
  bool calls_differ = false;  // between acts of a launch
  bool delayed = false;       // its next act is, or was
  bool writes_state =
      false;       // by a collective, a kernel that finishes later or a read, into a variable; other calls each say so
  int stream = 0;  // in the plan
  int sequence = -1;  // collective: which of its part's sequences
  std::int64_t acts_per_launch = 1;
  std::int64_t acts_left = 0;  // of its present launch, after this act
  std::int64_t act_of_launch() const { return acts_per_launch - 1 - acts_left; }
  std::int64_t launch = -1;  // the present one: its number among the plan's
  std::uint64_t ticket = 0;  // of that launch
  std::vector<PatchedPort> patched;
  std::vector<PreparedCall> calls;

  std::vector<Mail> mails;  // by lane, for messages to other workers
  Mail completion;          // the end of a kernel that finishes later
  std::exception_ptr async_error;
  std::atomic<const Call*> at_call{nullptr};  // that runs, or ran last; others look while it runs
  std::vector<PoisonRange> poisoned;          // in the order of their calls
  std::vector<BoundOperand> bound;
  int binding = -1;           // input: which feed; fetch: which output
  bool reads_slowly = false;  // input: the read before took long, so the next is the reader's
  std::unique_ptr<comm::CollectiveRun> collective;
  std::byte *collective_in = nullptr, *collective_out = nullptr, *staging = nullptr;
};

// The collectives of one communicator in which one device takes part.
struct SequenceState {
  SequencePosition* position = nullptr;
  comm::Endpoint* endpoint = nullptr;
  Mail arrival;
  std::atomic<bool> arrival_posted{false};  // the mail is on its way
  std::vector<ActorState*> by_position;
  ActorState* running = nullptr;
  std::int64_t sent_before = 0;  // bytes of the endpoint when the last one ended
};

// The actors of one plan that one worker serves.
struct WorkerPlan {
  LoadedPlan* loaded = nullptr;
  int worker = 0;
  std::vector<std::unique_ptr<ActorState>> actors;  // by place
  std::vector<ActorState*> local;  // by actor id + 1; none where another worker (or the session, at 0) is meant
  ReadyQueue ready;
  ReadyQueue held_collectives;    // collectives of failed launches, until every rank knows of the failure (failure.h)
  bool runnable = false;          // in its worker's list
  std::vector<char> stream_busy;  // by stream, only where a kernel is asynchronous or acts are delayed
  std::vector<ReadyQueue> deferred;  // by stream: ready, but the stream is busy
  std::vector<std::unique_ptr<SequenceState>> sequences;
  std::map<std::string, SingleWriterCounter> sent_bytes;  // by kind of collective
  SingleWriterCounter acts, messages;
  Mail attach, abandon, resume, detach;
  std::atomic<bool> resume_posted{false};  // the mail is on its way
  bool unloading = false;                  // no longer served: what is still on its way to it is thrown away
};

// The session's side of a plan, served by worker 0.
struct SessionPorts {
  explicit SessionPorts(const Plan& plan)
      : session_start(Ports::session_start(plan)),
        session_done(Ports::session_done(plan)) {}
  Ports session_start, session_done;
  std::vector<Mail> start_mails, done_mails;  // by lane
  SingleWriterCounter messages;
};

// A variable of the session. Plans that use one hold it too: what the session has forgotten goes with the last of them.
struct Variable {
  std::string layout;
  Memory memory;
};

// A variable that a launch touches. Two launches of different plans of which one writes a variable of the other run one
// after the other.
struct VariableAccess {
  const Variable* variable = nullptr;
  bool writes = false;
};

void sort_accesses(std::vector<VariableAccess>& accesses);  // by variable, each once

// A launch; or, without a plan, a client's turn at some variables, or a launch in which only other ranks' devices take
// part.
struct LaunchRecord {
  Session* session = nullptr;
  LoadedPlan* loaded = nullptr;
  std::uint64_t ticket = 0;
  const std::vector<VariableAccess>* accesses = nullptr;  // sorted by variable
  bool remote_only = false;                               // on other ranks' devices alone
  bool running = false;                                   // worker 0's
  bool granted = false, over = false,
       ended = false;       // the session's mutex guards them; ended: here, maybe not on all ranks
  std::uint64_t op = 0;     // of all ranks; 0: of this one alone
  std::int64_t index = 0;   // among the session's launches
  std::vector<Feed> feeds;  // by input binding
  std::vector<std::shared_ptr<const DeviceValue>>
      arrays;                                            // by input binding, instead of a feed; empty if there is none
  std::vector<std::shared_ptr<LaunchRecord>> producers;  // launches whose results those are; they may be over
  std::shared_ptr<const DeviceValues> outputs;           // by fetch binding
  std::vector<std::byte*> targets;  // the outputs' parts, one after the other: a worker looks at no more than it writes
  Mail mail;
  std::mutex mutex;
  std::optional<Error> error;  // the first one
  // Worker 0's until the launch has ended here.
  std::int64_t number = -1;                  // among its plan's launches, once it runs
  bool invalidated = false;                  // another rank failed in it before it began here
  bool released = false;                     // and all ranks know
  bool skipped = false;                      // it ended without an error of its own, but some of its acts did not work
  bool wrote = false;                        // an act of it that writes a variable worked
  bool plan_unusable = false;                // its plan cannot run again as it is
  std::vector<VariableAccess> own_accesses;  // of a client's turn; so is
  Mail end;                                  // this
};

// A launch of a plan that runs, for those whose acts belong to it.
struct ActiveLaunch {
  std::atomic<LaunchRecord*> record{nullptr};
  std::atomic<std::uint64_t> ticket{0};
  std::atomic<std::int64_t> number{-1};  // among the plan's launches
};

struct PlanBinding {
  std::shared_ptr<ShardLayout> layout;  // inputs: what is read where; outputs: what is fetched where
  std::string where;
};

struct LoadedPlan {
  LoadedPlan(const Plan& p, int in_flight)
      : plan(p),
        session_ports(plan),
        collective_sequence(plan),
        active_launches(std::bit_ceil(static_cast<std::size_t>(in_flight))) {}

  ActiveLaunch& active_launch(std::int64_t launch) {
    return active_launches[static_cast<std::size_t>(launch) & (active_launches.size() - 1)];
  }
  // None if that launch does not run: an actor without inputs may act before its first launch.
  LaunchRecord* record(std::int64_t launch) {
    const ActiveLaunch& f = active_launch(launch);
    return launch >= 0 && f.number.load(std::memory_order_acquire) == launch ? f.record.load(std::memory_order_acquire)
                                                                             : nullptr;
  }

  // An act of this launch is about to write a variable.
  void note_write(std::int64_t launch) {
    std::int64_t last = wrote.load(std::memory_order_relaxed);
    while (last < launch && !wrote.compare_exchange_weak(last, launch, std::memory_order_relaxed)) continue;
  }

  Plan plan;
  int number = 0;          // the session's
  std::uint64_t work = 1;  // of two ranks equal where they do the same calls; never 0
  SessionPorts session_ports;
  CollectiveSequence collective_sequence;
  std::vector<Memory> memory;                                // of blocks that are no variables and lie in no arena
  std::vector<Arena::Lease> arenas;                          // by device
  ById<RegisterId, std::vector<std::atomic<int>>> readers;   // by slot, where memory is poisoned
  ById<RegisterId, std::vector<std::byte*>> slot_addresses;  // of inputs, by slot: where readers find what was fed
  std::vector<std::shared_ptr<Variable>> variables, variables_of_arenas;
  std::vector<VariableAccess> accesses;  // of the variables and arenas, sorted by them
  ById<BlockId, std::byte*> block_address;
  ById<DeviceId, Device*> devices;
  std::vector<std::unique_ptr<WorkerPlan>> worker_plans;  // by worker; none where a worker has no actor of it
  ById<CommunicatorId, std::unique_ptr<comm::LocalHub>>
      hubs;  // behind the parts: a link rings a sequence's bell until it is closed
  ById<ActorId, WorkerPlan*> worker_plan_of;
  std::vector<Mailbox*> boxes;  // by worker
  SourceReader* reader = nullptr;
  double slow_read = 0;  // seconds
  bool check_nan = false;
  Delays delays;
  std::vector<PlanBinding> inputs, outputs;
  std::vector<ActiveLaunch> active_launches;  // a ring: an act finds its launch by the number of its acts
  std::int64_t started = 0, ended = 0;        // launches; worker 0's
  // Likewise: launches that failed and ended here before it was known that every rank has poisoned its part, by op,
  // with their numbers.
  std::vector<std::pair<std::uint64_t, std::int64_t>> unreleased;
  static constexpr std::int64_t none = INT64_MAX;
  std::atomic<std::int64_t> poisoned{none};  // from this launch on acts complete without working: it failed
  std::atomic<std::int64_t> released{
      none};  // from this launch on collectives of failed launches run: every rank knows of the failure
  std::atomic<std::int64_t> wrote{-1};  // the last launch in which an act that writes a variable worked
  std::function<void(std::uint64_t op)>
      invalidate;           // tells the other ranks that the launch of this op fails here; none: there are none
  bool runs_ahead = false;  // an actor has no input, so that it may act between launches
  std::atomic<bool> abandoned{false};  // a collective broke: nobody waits for members
  std::mutex error_mutex;
  std::optional<Error> collective_error;  // why it was abandoned

  // Of a plan that is being unloaded. Worker 0's, but for `left`, which the session's mutex guards.
  Mail unload;
  int queued = 0;  // launches of it that are not over
  bool unloading = false;
  int unload_round = 0, attached = 0;  // of asking the parts to go, and how many have not answered
  bool unloaded = false;               // no worker will touch it again
};

// What is under way on this rank is to end, because another rank failed.
struct LaunchAbort {
  Mail mail;
  Error error{""};
  std::vector<std::shared_ptr<LoadedPlan>> plans;
};

struct Variables {
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable>> by_key;  // device ("0.1") and name
  std::map<std::string, std::shared_ptr<Variable>>
      arenas;  // by device: what plans with blocks in its arena seem to write, so that they follow each other
};

std::string device_name(const PlanDevice& device);  // "0.1"

struct LoadOptions {
  const KernelTable* kernels = nullptr;
  std::vector<const AsyncKernel*> async;  // must outlive what is loaded
  std::function<Device&(const PlanDevice&)> device;
  int number = 0;               // the plan's, in its session
  int in_flight = 1;            // launches of it that may run at once
  int max_workers = 1;          // workers that compute, at most; see karez/plan/stream_assignment.h
  std::vector<Mailbox*> boxes;  // of the workers there are
  SourceReader* reader = nullptr;
  double slow_read = 0;  // seconds from which a read is the reader's
  bool poison = false;
  bool check_nan = false;
  bool order_arena_plans = true;  // plans whose blocks lie in one arena
  Delays delays = {};
  std::function<void(comm::Endpoint&)> on_endpoint = {};
  ConnectRank connect = {};  // none: this rank is alone
};

// Prepares everything and runs the set-up of a plan that `verify` has passed. Throws without leaving anything behind:
// variables are added last.
std::unique_ptr<LoadedPlan> prepare(const Plan& plan, Variables& variables, const LoadOptions& options);

}  // namespace karez::runtime
