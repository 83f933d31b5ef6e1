// A session: loads plans, launches them in the order of their tickets, and waits for launches. It owns the worker pool,
// the variables and the plans, and agrees with other ranks through its control.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "karez/data/source.h"
#include "karez/device/host_array.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/counters.h"
#include "karez/plan/plan.h"
#include "karez/runtime/async_kernel.h"
#include "karez/runtime/control.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/launch/failure_state.h"
#include "karez/runtime/launch/launch.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"
#include "karez/runtime/session_options.h"
#include "karez/runtime/ticks.h"
#include "karez/runtime/variable_lock.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::device {
class Device;
}

namespace karez::runtime {

class LaunchTable;
class VariableStore;
class WorkerPool;
struct Exchange;
struct FinishedLaunches;
struct InvalidatedOp;
struct LaunchAbort;
struct LoadedPlan;

using Feeds = std::vector<std::pair<std::string, Feed>>;  // by name
// One input of a launch: a source, or the result of another launch.
using LaunchInput = std::variant<Feed, Result>;

class Session final : WorkerOwner {
 public:
  Session(SessionOptions options, const KernelTable& kernels);  // the table must outlive the session
  ~Session() override;  // ends it: gracefully, or immediately if an exception unwinds the stack
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Ends the session permanently; a second call has no effect. Later calls of other functions are errors, but results
  // of launches that ended without an error can still be read.
  //   graceful    waits for earlier launches, and for the other ranks to end their sessions too. An exception from
  //               `while_waiting` ends only the wait: call `end` again
  //   immediate   running launches fail: only a running call of a kernel or source is waited for. The other ranks
  //               receive `reason`
  // Afterwards no thread of the session is left. Must not be called by a kernel or a source.
  enum class ShutdownMode { graceful, immediate };
  void end(ShutdownMode mode, const std::string& reason = "it ends its world, because an exception was thrown");
  void check_open() const;  // throws if the session has ended

  void add(AsyncKernel kernel);  // call before loading a plan that names the kernel

  // Verifies the plan, resolves its kernels (a missing one is an error that lists those that exist), allocates its
  // blocks, shares its variables with those of the same device and name (a different layout is an error), and runs
  // `setup`. Returns the plan's number for `launch`.
  // `check_nan` applies to launches of this plan.
  int load(const Plan& plan, bool check_nan = false);

  // Unloads the plan: launches made so far run to their end, then the plan's memory, actors, kernels and links are
  // freed; variables remain. Never waits; other plans are unaffected. Plan numbers are not reused. Returns false if
  // there is no such plan (a reload may have forgotten it).
  bool unload(int plan);
  int plans();  // the number of plans that hold memory: loaded, or not completely unloaded

  // Returns the names of the plan's inputs, in the order in which `launch_in_order` takes them.
  std::vector<std::string> input_names(int plan) const;

  // Runs the plan once. Every input binding needs a feed of the right type, or a result of an earlier launch of this
  // session with the layout that the plan reads: each device then reads its own part. Launches run in the order of
  // their tickets if they share a variable that one of them writes, or if one takes the other's result; otherwise they
  // run concurrently. At most `in_flight` run at once; `launch` waits while that many run. Every wait for a failed
  // launch, and every use of its results, throws its error. If it wrote no variable, launches made after its error was
  // reported (by a wait, or by the next launch, which throws it) run again; if it did, every later launch is an error
  // until `reload`. With several ranks, `op` is the number of its op; the launch is over when it has ended on all
  // ranks, and if it fails on one rank, it fails on all.
  Launch launch(int plan, const Feeds& feeds = {}, const Results& arrays = {}, std::uint64_t op = 0);
  // The same with one item for each input; nothing is searched by name.
  Launch launch_in_order(int plan, const std::vector<LaunchInput>& inputs, std::uint64_t op = 0);

  // Creates a value on devices of this rank, one part on each, like a result of a launch. Copies the bytes; does not
  // wait.
  Result device_put(const TensorType& type, std::vector<DeviceShard> parts);

  // With several ranks: begins this rank's next op, which all ranks share (control.h). Without other ranks, does
  // nothing and returns 0. These functions throw the failure, if there is one.
  std::uint64_t begin_op(const OpDescription& op);
  void await_op(std::uint64_t op);  // waits until all ranks have begun the op
  // A launch on devices of other ranks only. It has no results, counts as a launch of this rank, and fails if it fails
  // on the other ranks.
  Launch launch_remote(std::uint64_t op);
  // Waits until all ranks have requested the op, which then has begun, or until the request is refused.
  std::variant<std::uint64_t, Refusal> request_op(const OpDescription& op);
  void fail_ranks(const Error& error);  // reports a failure to all ranks

  // Returns the two ranks that began different ops under this number, if that is the failure; -1 and 0 if only a wrong
  // sum is known.
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op);
  std::vector<Exchange> exchanges(const Plan& plan) const;  // over the plan's links to other ranks

  void wait_for_capacity();  // waits until `launch` would not wait

  // Waits until the launches made so far are over; other threads may make more meanwhile.
  void wait_all_launches();

  // Requests a lock on some devices' parts of a variable, with their views in memory. Does not wait.
  VariableLock lock_variable(std::string_view name, const std::vector<std::pair<PlanDevice, View>>& parts, bool writes);
  HostArray read_variable(std::string_view name, const PlanDevice& device, const View& view);
  void write_variable(std::string_view name, const PlanDevice& device, const View& view, const HostArray& value);
  bool has_variable(std::string_view name, const PlanDevice& device) const;
  // Forgets the variable on all devices, without waiting: its memory is freed with the last plan that uses it, and the
  // next plan that names the variable creates a new one.
  void forget_variable(std::string_view name);

  bool failed() const;  // later launches are errors until `reload`

  // Forgets all plans and variables, and any failure. Plan numbers are not reused.
  void reload();

  // With several ranks, after a failure and `reload`: `leave_ranks` closes all links to other ranks, and `join_ranks`
  // opens them again on new connections. All ranks call both, and no rank joins before all have left.
  void leave_ranks();
  void join_ranks();

  Counters counters();  // waits until no launch is in flight
  // The bytes, on all devices, of results that have a handle or that a running launch uses. May be called at any time.
  std::int64_t held_bytes();
  std::map<std::string, std::int64_t> arena_bytes();  // by device: the size of the arena for registers and scratch
  // The current waits: one line per actor that is not idle. Never blocks on a worker that runs a kernel.
  std::string wait_graph();
  // The progress of this rank; with `waits` also its current call and the ranks that it waits for, as far as known
  // after `max_seconds`. May be called from any thread.
  RankState state(bool waits, double max_seconds);
  // Returns a line of text once other programs have been detected on the cores of teams (contention_monitor.h); ""
  // before.
  std::string contention_text();
  // The last events of each worker. May be called at any time, also while launches run and after one has failed;
  // `reload` clears the events.
  std::vector<EventLog> events() const;

 private:
  class ControlGuard;
  friend class Launch;
  friend class Result;
  friend class VariableLock;
  void finished(LaunchRecord& record) override;
  bool rejects(const LaunchRecord& record) const override;
  bool producer_failed(const LaunchRecord& record) const override;
  void invalidate(std::uint64_t op) override;
  void grant(LaunchRecord& record) override;
  void on_protocol_error(const Error& error) override;
  void on_unloaded(LoadedPlan& loaded) override;

  void throw_failure(std::unique_lock<std::mutex>& lock);
  void throw_data_failure(std::unique_lock<std::mutex>& lock);
  void recover(std::unique_lock<std::mutex>& lock, std::uint64_t reported_ticket);
  bool has_capacity() const;
  void wait_idle();
  template <class Predicate>
  void wait_over(std::unique_lock<std::mutex>& lock, Predicate done);  // waits on `over_`; while_waiting may throw
  bool is_over(const LaunchRecord& record) const;
  std::shared_ptr<LoadedPlan> find(int plan) const;
  void free_unloaded();
  FinishedLaunches drop_finished();                  // call with the lock held, and destroy the result after unlocking
  void queue(std::shared_ptr<LaunchRecord> record);  // call with the lock held
  void queue_variable_lock(std::shared_ptr<LaunchRecord> record);
  void count(const LoadedPlan& loaded, Counters& counters) const;
  void wait(const LaunchRecord& record);
  void feed(LaunchRecord& record, std::size_t input, const LaunchInput& value);
  void stop();
  void drop_plans();
  int load_open(const Plan& plan, bool check_nan);
  Device& device(const PlanDevice& device);
  std::string links_of(const Plan& plan);
  // Runs `launch`; if it throws, the other ranks, which wait for this rank in op `op`, get the error too.
  template <class Act> Launch fail_ranks_on_error(std::uint64_t op, Act launch);
  using NumberedInputs = std::vector<std::pair<std::size_t, const LaunchInput*>>;
  Launch try_launch(const std::shared_ptr<LoadedPlan>& loaded_plan, int plan, const NumberedInputs& inputs,
                    std::uint64_t op);
  // Called by the control when all ranks have ended a launch, when a launch is invalid, and when a rank has failed, so
  // that all running launches fail.
  void ended(std::uint64_t op, const LaunchEnd& end);
  void invalidated(std::uint64_t op, bool on_all_ranks);
  void on_rank_failure(const Error& error, std::optional<int> lost);
  void finish(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting);
  void finish_once(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting);
  void end_world(const std::function<void()>& while_waiting);  // waits until all ranks reach it
  void await_idle(const std::function<void()>& while_waiting);
  void abort_launches(const Error& error);
  void require_open() const;    // throws if the session has ended; call with the lock held
  void require_joined() const;  // throws if the session has ended or has left the other ranks
  RankTime rank_time(const LaunchRecord& record) const;
  void record_flight(const Error& error, const RankState& state);
  std::vector<EventLog> to_ns(std::vector<EventLog> logs) const;

  SessionOptions options_;
  TickScale scale_;          // the time scale of events
  std::int64_t origin_ = 0;  // ns since 1970 at the zero of that scale
  std::atomic<bool> flight_recorded_{false};
  const KernelTable* kernels_;
  std::vector<std::unique_ptr<AsyncKernel>> async_;
  std::map<std::string, std::unique_ptr<Device>> devices_;  // "rank.device"
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<WorkerPool> workers_;
  std::atomic<std::uint64_t> ops_{0};              // the number of ops that this rank has begun or requested
  std::atomic<int> awaiting_threads_{0};           // threads of the program that wait for all ranks to begin an op
  std::mutex load_mutex_;                          // held while a plan is loaded and while workers are stopped
  std::mutex end_mutex_;                           // held while the session ends
  bool finished_ = false;                          // guarded by end_mutex_
  std::map<std::uint64_t, int> plans_of_program_;  // by program hash: the number of its plans with links to other ranks

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable over_;
  int next_plan_ = 0;
  std::map<int, std::shared_ptr<LoadedPlan>> loaded_;         // by number
  std::vector<std::shared_ptr<LoadedPlan>> unloading_plans_;  // kept until freed; workers may still use some
  Counters unloaded_counters_;                                // the counters of freed plans
  std::unique_ptr<LaunchTable> launches_;
  FailureState failures_;
  std::vector<std::unique_ptr<InvalidatedOp>> invalidated_;  // sent to worker 0
  std::int64_t idle_since_ = 0, idle_ = 0;     // ticks: the time since which no launch runs, and the total idle time
  bool left_ranks_ = false;                    // this session has left the other ranks
  bool stopping_ = false;                      // workers are being stopped, or have been
  bool ended_ = false;                         // the session has ended permanently
  std::atomic<bool> failure_reported_{false};  // the failure has been reported to the program
  int control_users_ = 0;                      // threads of the program that use the control
  std::unique_ptr<LaunchAbort> launch_abort_;  // sent to worker 0 after a failure
  std::unique_ptr<Control> control_;           // null without other ranks; last, because it calls this session
};

template <class Predicate> void Session::wait_over(std::unique_lock<std::mutex>& lock, Predicate done) {
  if (!options_.while_waiting) return over_.wait(lock, done);
  while (!over_.wait_for(lock, std::chrono::milliseconds(50), done)) {
    lock.unlock();
    options_.while_waiting();
    lock.lock();
  }
}

}  // namespace karez::runtime
