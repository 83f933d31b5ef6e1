// A session loads plans, launches them in the order of their tickets, and waits for launches. It owns the worker pool,
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
#include "karez/runtime/idle_clock.h"
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

class EventRecorder;
class LaunchTable;
class VariableStore;
class Worker;
class WorkerPool;
struct Exchange;
struct FinishedLaunches;
struct InvalidatedOp;
struct LaunchAbort;
struct LoadedPlan;
struct Mail;
struct Recording;
struct RecorderOptions;

using Feeds = std::vector<std::pair<std::string, Feed>>;  // by name
// One input of a launch: a source, or the result of another launch.
using LaunchInput = std::variant<Feed, Result>;

class Session final : WorkerOwner {
 public:
  Session(SessionOptions options, const KernelTable& kernels);  // the table must outlive the session
  ~Session() override;  // ends the session: gracefully, or immediately during stack unwinding
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Ends the session permanently; a second call has no effect. Later calls of other functions are errors, but results
  // of launches that ended without an error can still be read.
  //   graceful    waits for earlier launches, and for the other ranks to end their sessions too. An exception from
  //               `while_waiting` ends only the wait; call `end` again
  //   immediate   running launches fail; waits only for running calls of kernels and sources. The other ranks receive
  //               `reason`
  // When `end` returns, all threads of the session have ended. Must not be called by a kernel or a source.
  enum class ShutdownMode { graceful, immediate };
  void end(ShutdownMode mode, const std::string& reason = "it ends its world, because an exception was thrown");
  void check_open() const;  // throws if the session has ended

  void add(AsyncKernel kernel);  // call before loading a plan that names the kernel

  // Verifies the plan, finds its kernels, allocates its blocks and runs its `setup`. Returns the plan's number for
  // `launch`. A missing kernel is an error that lists the existing ones. Variables of the same device and name are
  // shared with other plans; a different layout is an error. `check_nan` applies to launches of this plan.
  int load(const Plan& plan, bool check_nan = false);

  // Unloads the plan without waiting: when the launches made so far have ended, the plan's memory, actors, kernels and
  // links are freed. Variables and other plans are unaffected. Plan numbers are not reused. Returns false if no plan
  // has this number, for example after a reload.
  bool unload(int plan);
  int plans();  // the number of plans that are loaded or not yet completely unloaded

  // Returns the names of the plan's inputs, in the order in which `launch_in_order` takes them.
  std::vector<std::string> input_names(int plan) const;

  // Runs the plan once. Every input binding needs either a feed of the right type in `feeds`, or a result of an earlier
  // launch of this session in `arrays`. The result must have the layout that the plan reads, and each device reads its
  // own part of it.
  //
  // Two launches run in the order of their tickets if one writes a variable that the other uses, or if one takes a
  // result of the other. Otherwise they run concurrently. At most `in_flight` launches run at a time; `launch` waits
  // until there is capacity.
  //
  // Every wait for a failed launch, and every use of its results, throws the error of the launch. If the failed launch
  // wrote no variable, the session continues once the error has been reported, by a wait or by the next launch, which
  // throws it. If it wrote a variable, every later launch is an error until `reload`.
  //
  // With several ranks, `op` is the number of the launch's op. The launch is over when it has ended on all ranks; if it
  // fails on one rank, it fails on all.
  Launch launch(int plan, const Feeds& feeds = {}, const Results& arrays = {}, std::uint64_t op = 0);
  // The same with one item for each input, in the order of `input_names`, so that no name is looked up.
  Launch launch_in_order(int plan, const std::vector<LaunchInput>& inputs, std::uint64_t op = 0);

  // Creates a value, with one part on each of some devices of this rank, that can be used like a result of a launch.
  // Copies the bytes and does not wait.
  Result device_put(const TensorType& type, std::vector<DeviceShard> parts);

  // Begins this rank's next op, which must be the same on all ranks (control.h). Without other ranks, does nothing and
  // returns 0. The functions from here to `request_op` throw the failure, if there is one.
  std::uint64_t begin_op(const OpDescription& op);
  void await_op(std::uint64_t op);  // waits until all ranks have begun the op
  // Makes a launch that runs only on devices of other ranks. It has no results, counts as a launch of this rank, and
  // fails if it fails on the other ranks.
  Launch launch_remote(std::uint64_t op);
  // Requests an op. Waits until all ranks have requested it, so that the op has begun, or until the request is refused.
  std::variant<std::uint64_t, Refusal> request_op(const OpDescription& op);
  void fail_ranks(const Error& error);  // reports a failure to all ranks

  // If the failure is that two ranks began different ops under this number, returns the ranks, or {-1, 0} if the sum is
  // wrong and the ranks are not known.
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op);
  std::vector<Exchange> exchanges(const Plan& plan) const;  // the exchanges over the plan's links to other ranks

  void wait_for_capacity();  // waits until `launch` would not wait

  // Waits until the launches made so far are over. Other threads may make further launches during the wait.
  void wait_all_launches();

  // Requests a lock on the parts of a variable on some devices, each with its view in memory. The lock is exclusive if
  // `writes` is true, otherwise shared. Does not wait.
  VariableLock lock_variable(std::string_view name, const std::vector<std::pair<PlanDevice, View>>& parts, bool writes);
  // These lock one part of a variable, wait for the lock, and read or write the part.
  HostArray read_variable(std::string_view name, const PlanDevice& device, const View& view);
  void write_variable(std::string_view name, const PlanDevice& device, const View& view, const HostArray& value);
  bool has_variable(std::string_view name, const PlanDevice& device) const;
  // Forgets the variable on all devices, without waiting. Its memory is freed with the last plan that uses it. The next
  // plan that is loaded and names the variable creates a new one.
  void forget_variable(std::string_view name);

  void check_ranks();   // throws the first error of any rank, if a rank has failed
  bool failed() const;  // true if later launches are errors until `reload`

  // Forgets all plans and variables, and any failure. Plan numbers are not reused.
  void reload();

  // With several ranks, call these after a failure and `reload`: `leave_ranks` closes all links to other ranks, and
  // `join_ranks` opens them again on new connections. All ranks must call both functions, and no rank may join before
  // all ranks have left.
  void leave_ranks();
  void join_ranks();

  Counters counters();  // waits until no launch is in flight
  // Returns the bytes, on all devices, of results that have a handle or that a running launch uses. May be called at
  // any time.
  std::int64_t held_bytes();
  std::map<std::string, std::int64_t> arena_bytes();  // by device: the size of the arena for registers and scratch
  // Returns the current waits: one line for each actor that is not idle. Never blocks on a worker that runs a kernel.
  std::string wait_graph();
  // Returns the progress of this rank. If `waits` is true, the state includes the current call and the ranks that this
  // rank waits for, as far as they are known after `max_seconds`. May be called from any thread.
  RankState state(bool waits, double max_seconds);
  // Returns a line of text if other programs have been detected on the cores of teams (contention_monitor.h), otherwise
  // "".
  std::string contention_text();
  // Returns the last events of each worker. May be called at any time, even while launches run and after a failure.
  // `reload` clears the events.
  std::vector<EventLog> events() const;

  // Begins a profile (profile/event_recorder.h): records the events of the launches made from now on. While a profile
  // is on, workers also record the ends of calls.
  std::shared_ptr<EventRecorder> record_events(const RecorderOptions& options);
  void end_recording(const std::shared_ptr<EventRecorder>& recorder);
  Recording recording(const EventRecorder& recorder) const;
  // Converts ticks to ns since the session was created, the zero of events, which was at `origin`, in ns since 1970.
  std::int64_t to_ns(std::int64_t ticks) const { return scale_.ns(ticks, scale_.ns_per_tick()); }
  std::int64_t origin() const { return origin_; }

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
  FinishedLaunches drop_finished();  // call with the lock held, and destroy the result after unlocking
  void queue_variable_lock(std::shared_ptr<LaunchRecord> record);
  void release_variable_lock(LaunchRecord& record);
  // Call these with the lock held. `queue` gives the record a ticket and sends it to worker 0. `serving` is worker 0 if
  // this thread does its work, otherwise null.
  void queue(std::shared_ptr<LaunchRecord> record, const Worker* serving);
  void post(Mail& mail, const Worker* serving);
  // These let the calling thread do the work of worker 0 (session_caller.cc). Call `take_over` and `note_wait` with the
  // lock held, the others without it.
  Worker* take_over();
  Worker* take_over(const LaunchRecord& record);
  void run_launch(Worker& worker, LaunchRecord& record);
  void open_mail(Worker& worker);
  void note_wait(const LaunchRecord& record);
  void count(const LoadedPlan& loaded, Counters& counters) const;
  void wait(const LaunchRecord& record);
  void feed(LaunchRecord& record, std::size_t input, const LaunchInput& value);
  void stop();
  void drop_plans();
  int load_open(const Plan& plan, bool check_nan);
  Device& device(const PlanDevice& device);
  std::string links_of(const Plan& plan);
  // Runs `launch`. If it throws, also sends the error to the other ranks, which wait for this rank in op `op`.
  template <class Act> Launch fail_ranks_on_error(std::uint64_t op, Act launch);
  using NumberedInputs = std::vector<std::pair<std::size_t, const LaunchInput*>>;
  Launch try_launch(const std::shared_ptr<LoadedPlan>& loaded_plan, int plan, const NumberedInputs& inputs,
                    std::uint64_t op);
  // Called by the control when all ranks have ended a launch, when a launch is invalidated, and when a rank has failed.
  // In the last case all running launches fail.
  void ended(std::uint64_t op, const LaunchEnd& end);
  void invalidated(std::uint64_t op, bool on_all_ranks);
  void on_rank_failure(const Error& error, std::optional<int> lost);
  void finish(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting);
  void finish_once(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting);
  void end_world(const std::function<void()>& while_waiting);  // waits until all ranks end their sessions
  void await_idle(const std::function<void()>& while_waiting);
  void abort_launches(const Error& error);
  void require_open() const;    // throws if the session has ended; call with the lock held
  void require_joined() const;  // throws if the session has ended or has left the other ranks
  RankTime rank_time(const LaunchRecord& record) const;
  void record_flight(const Error& error, const RankState& state);
  std::vector<EventLog> to_ns(std::vector<EventLog> logs) const;
  void time_calls();     // sets whether workers record calls; call with the lock held
  void end_recorders();  // before the workers are stopped for the last time

  SessionOptions options_;
  TickScale scale_;          // the time scale of events
  std::int64_t origin_ = 0;  // the zero of that scale, in ns since 1970
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
  std::map<std::uint64_t, int> plans_of_program_;  // by program hash: how many of its plans were loaded (links_of)

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable over_;
  int next_plan_ = 0;
  std::map<int, std::shared_ptr<LoadedPlan>> loaded_;         // by number
  std::vector<std::shared_ptr<LoadedPlan>> unloading_plans_;  // kept until freed; workers may still use some
  Counters unloaded_counters_;                                // the counters of freed plans
  std::unique_ptr<LaunchTable> launches_;
  FailureState failures_;
  std::vector<std::unique_ptr<InvalidatedOp>> invalidated_;  // sent to worker 0
  const std::shared_ptr<IdleClock> idle_clock_;              // in ticks; written under the mutex
  std::vector<std::shared_ptr<EventRecorder>> recorders_;    // of profiles that are on, or have recorded enough
  bool left_ranks_ = false;                                  // true between leave_ranks and join_ranks
  bool stopping_ = false;                                    // workers are being stopped or have been stopped
  bool ended_ = false;                                       // the session has ended permanently
  std::atomic<bool> failure_reported_{false};                // the failure has been reported to the program
  int control_users_ = 0;                                    // threads of the program that use the control
  std::unique_ptr<LaunchAbort> launch_abort_;                // sent to worker 0 after a failure
  std::unique_ptr<Control> control_;  // null without other ranks; last, because it calls this session
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
