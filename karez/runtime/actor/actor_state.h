// The state that a worker keeps of an actor of a loaded plan.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_run.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/plan.h"
#include "karez/plan/ports.h"
#include "karez/runtime/async_kernel.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/worker/mailbox.h"

namespace karez::runtime {

// A counter that one thread writes and other threads may read, so that adding needs no atomic read-modify-write.
class SingleWriterCounter {
 public:
  void add(std::int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct PreparedCall {
  PreparedKernel run;  // or `async`
  const AsyncKernel* async = nullptr;
  std::vector<std::byte*> in, out;  // addresses; patched if an operand's slot changes
  std::byte* workspace = nullptr;
  const Call* call = nullptr;
  bool writes_state = false;  // a result is stored in a variable
  std::uint32_t timed =
      0;  // how often its CPU time could have been read, and the ticks that it took last: call_timer.h
  std::int64_t last_ticks = 0;
  KernelArgs args() const { return {in, out, workspace}; }
};

// An address that depends on a port's current slot: *cell = base + slot * stride, or slot_addresses[slot] + offset if
// the bytes may be outside the register.
struct Patch {
  std::byte** cell = nullptr;
  std::byte* base = nullptr;
  std::int64_t stride = 0, offset = 0;
};

struct PatchedPort {
  bool output = false;
  int port = 0;
  int slot = -1;  // the slot to which the cells currently refer
  std::byte* const* slot_addresses = nullptr;
  std::vector<Patch> patches;
};

// Memory that an act poisons: before a call that overwrites it, or after its last reader.
struct PoisonRange {
  static constexpr int first = -1, last = INT_MAX;
  int call = first;  // poisoned before this call or, if dead, after it; first, last: when the act begins or ends
  bool dead = false;
  int port = -1;  // the port of a register; -1: a fixed address
  bool output = false;
  std::byte* base = nullptr;
  std::int64_t stride = 0, bytes = 0;
  std::atomic<int>* readers = nullptr;  // by slot: how many consumers have not read it yet; set by the producer
  int consumers = 0;
};

struct BoundOperand {
  std::byte* address = nullptr;
  const View* view = nullptr;
  std::vector<std::vector<std::int64_t>> begin;  // the begin of each slice of the operand
  std::size_t shard = 0;                         // index in the binding's layout
  const View* target_view = nullptr;             // fetch: the view in the result
  std::size_t target = 0;                        // fetch: index in LaunchRecord::targets
  std::byte** slot_addresses = nullptr;  // input: by slot, the address of the data: at the source or in the slot
  int port = -1;                         // the output port of the register
};

// An output port whose slot is in the memory of a result.
struct ResultPort {
  int port = 0;
  std::size_t target = 0;                // index in LaunchRecord::targets
  std::byte** slot_addresses = nullptr;  // by slot
};

// The work of an actor's acts.
enum class WorkKind : std::uint8_t { none, calls, async_call, read, fetch, collective };

// The state of one actor on its worker. Members that every act uses come first.
struct ActorState {
  ActorState(const Plan& plan, ActorId actor, const PortNumbers& places)
      : ports(plan, actor, places),
        id(actor),
        actor(&plan.actor(actor)) {}

  Ports ports;
  ActorId id;
  int local_index = 0;  // position in the priority order of the worker plan
  const Actor* actor;
  WorkKind work = WorkKind::none;
  bool calls_differ = false;  // some calls run only in some acts of a launch
  bool delayed = false;       // the next act is being delayed, or its delay has ended
  bool writes_state = false;  // a collective, asynchronous kernel or read writes a variable; calls have their own flag
  int stream = 0;             // number of the stream in the plan
  int sequence = -1;          // collective: index in its worker plan's sequences
  std::int64_t acts_per_launch = 1;
  std::int64_t acts_left = 0;  // the number of acts of the current launch after this act
  std::int64_t act_of_launch() const { return acts_per_launch - 1 - acts_left; }
  std::int64_t launch = -1;  // the number of the current launch within the plan
  std::uint64_t ticket = 0;  // ticket of the current launch
  std::vector<PatchedPort> patched;
  std::vector<PreparedCall> calls;

  std::vector<Mail> mails;  // by lane, for messages to other workers
  Mail completion;          // posted at the end of an asynchronous kernel or slow read
  std::exception_ptr async_error;
  std::atomic<const Call*> at_call{nullptr};  // the call that runs or ran last; read by other threads
  std::vector<PoisonRange> poison_ranges;     // in the order of calls
  std::vector<BoundOperand> bound;
  std::vector<ResultPort> results;
  int binding = -1;           // input: index of the feed; fetch: index of the output
  bool reads_slowly = false;  // input: the last read was slow, so the source reader does the next read
  std::unique_ptr<comm::CollectiveRun> collective;
  std::byte *collective_in = nullptr, *collective_out = nullptr, *staging = nullptr;
};

}  // namespace karez::runtime
