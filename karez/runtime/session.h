// A session: owns worker threads, variables and loaded plans, and launches them in the order of their tickets.
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

#include "karez/base/timed_mutex.h"
#include "karez/data/source.h"
#include "karez/device/host_array.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/counters.h"
#include "karez/plan/plan.h"
#include "karez/runtime/async_kernel.h"
#include "karez/runtime/delays.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/hang_detector.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/worker_owner.h"

namespace karez::comm {
class Endpoint;
class Peers;
}  // namespace karez::comm

namespace karez::device {
class Device;
}

namespace karez::runtime {

class Agreement;
class ContentionMonitor;
class Heartbeat;
struct LaunchEnd;
struct OpDescription;
struct InvalidatedOp;
struct Refusal;
struct Exchange;
struct RankTime;
class Launch;
class SourceReader;
class Worker;
struct LoadedPlan;
struct LaunchAbort;
struct DeviceValue;
struct LaunchRecord;
struct Variables;
struct WorkerQuery;
struct CpuSet;

#ifdef KAREZ_POISON
inline constexpr bool poison_by_default = true;
#else
inline constexpr bool poison_by_default = false;
#endif

using Feeds = std::vector<std::pair<std::string, Feed>>;

struct SessionOptions {
  int workers = 0;  // the most worker threads; 0: one per usable core. Never more than cores or than the plans use
  bool poison = poison_by_default;  // fill new slots and scratch with a pattern that no correct plan reads
  int spin_microseconds = 20;       // how long an idle worker polls before it sleeps; 0 with teams of several threads
  int events = 4096;                // entries of each worker's ring, rounded up to a power of two; 55 bytes each
  int in_flight = 4;                // launches that may run at once; a further one waits; unread results do not count
  bool check_nan = false;           // check the results of every call: see check_finite.h

  // Called some twenty times a second by a thread that waits for launches; an exception from it ends the wait, but not
  // the launches.
  std::function<void()> while_waiting = {};
  bool pin = false;              // bind each worker and its teams to their own cores, as many as the largest team
  comm::Peers* peers = nullptr;  // the other ranks, if any; used by this session only, and must outlive it
  HangTimeouts hang_timeouts = {};
  std::string flight = {};  // the folder for flight records (flight_record.h); "": none
  // For tests.
  Delays delays = {};
  bool order_arena_plans = true;  // order launches of plans that share an arena; otherwise they overwrite each other
  std::function<void(Plan&)> on_plan = {};  // may change a plan before its links are compared between ranks
  std::function<void(comm::Endpoint&)> on_endpoint = {};  // may replace links of each endpoint of a loaded plan
};

// One output of one launch, on its devices: the bytes are kept until the last handle is destroyed. Copies share them.
// It may outlive the Session, but then only `type` may be called.
class Result {
 public:
  Result() = default;
  const TensorType& type() const;
  bool done() const;                     // whether the launch is over
  void wait() const;                     // for the launch; rethrows its error
  HostArray read() const;                // waits; the whole value, assembled from its parts
  std::vector<HostArray> local() const;  // waits; each device's part, in the order of the devices' names
  // Waits; the bytes, without a copy, of a part that is the whole value. Null if no part is.
  std::shared_ptr<const std::byte> bytes() const;

 private:
  friend class Launch;
  friend class Session;
  Result(std::shared_ptr<LaunchRecord> record, std::shared_ptr<const DeviceValue> held)
      : record_(std::move(record)),
        value_(std::move(held)) {}
  std::shared_ptr<LaunchRecord> record_;
  std::shared_ptr<const DeviceValue> value_;
};
using Results = std::vector<std::pair<std::string, Result>>;

// The part of a user's value for one device.
struct DeviceShard {
  PlanDevice place;
  std::vector<std::int64_t> begin;  // in the whole value
  Shape shape;
  HostArray value;
};

// The future of one launch. Copies share its state; it must not outlive the Session.
class Launch {
 public:
  void wait() const;  // rethrows the launch's first error, with its kind, actor, device and source line
  bool done() const;
  std::uint64_t ticket() const;
  std::size_t results() const { return values_->size(); }
  Result result(std::size_t i) const;          // in the order of the plan's fetches; does not wait
  Result result(std::string_view name) const;  // an unknown name is an error that lists the names
  std::optional<std::size_t> place_of(std::string_view name) const;  // index among the results; nullopt: no such fetch
  HostArray output(std::string_view name) const { return result(name).read(); }
  std::vector<std::pair<std::string, HostArray>> outputs() const;  // waits, and reads all of them
  Launch without_results() const;                                  // a handle that does not keep the results

 private:
  friend class Session;
  using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;
  Launch(std::shared_ptr<LaunchRecord> record, std::shared_ptr<const DeviceValues> held)
      : record_(std::move(record)),
        values_(std::move(held)) {}
  std::shared_ptr<LaunchRecord> record_;
  std::shared_ptr<const DeviceValues> values_;
};

// A client's lock on a variable: granted when the earlier launches that conflict with it are over; later ones wait for
// its release. Reading and writing wait until it is granted. Worker 0 grants it, between two acts. A thread that holds
// a lock must not wait for later launches (nor make more than `in_flight`, load, reload or count), because they may
// wait for the lock.
class VariableLock {
 public:
  ~VariableLock();
  VariableLock(VariableLock&&) noexcept;
  VariableLock& operator=(VariableLock&&) = delete;

  std::vector<HostArray> read() const;                     // each part row-major, whatever its strides
  void write(const std::vector<HostArray>& values) const;  // bytes between strided elements are kept

 private:
  friend class Session;
  struct Shard;
  VariableLock(std::shared_ptr<LaunchRecord> record, std::string_view name, std::vector<Shard> parts);
  void wait() const;
  std::shared_ptr<LaunchRecord> record_;
  std::string name_;
  std::vector<Shard> parts_;
};

class Session final : WorkerOwner {
 public:
  Session(SessionOptions options, const KernelTable& kernels);  // the table must outlive the session
  ~Session() override;  // ends it: gracefully, or immediately if an exception unwinds the stack
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Ends the session permanently; a second call has no effect. Later calls of other functions are errors; results of
  // launches that ended without an error can still be read.
  //   graceful    waits for the launches made before, and for the other ranks to end their sessions too. An exception
  //               from `while_waiting` ends the wait only: call `end` again
  //   immediate   running launches fail: only a call of a kernel or source that runs is waited for. The other ranks
  //               receive `why`
  // Afterwards no thread of the session is left. Must not be called by a kernel or a source.
  enum class ShutdownMode { graceful, immediate };
  void end(ShutdownMode how, const std::string& why = "it ends its world, because an exception was thrown");
  void check_open() const;  // throws if the session has ended

  void add(AsyncKernel kernel);  // before a plan that names it

  // Verifies the plan, resolves its kernels (a missing one is an error that lists those that exist), allocates its
  // blocks, shares its variables with those of the same device and name (a different layout is an error), and runs
  // `setup`. Returns the plan's number for `launch`.
  int load(const Plan& plan, bool check_nan = false);  // check_nan: for launches of this plan

  // Unloads the plan: its launches made before run to their end, then its memory, actors, kernels and links are freed;
  // variables remain. Never waits; other plans are unaffected. Numbers are not reused. Returns false if there is no
  // such plan (a reload may have forgotten it).
  bool unload(int plan);
  int plans();  // the number of plans that hold memory: loaded, or not completely unloaded

  // Runs the plan once. Every input binding needs a feed of the right type, or a result of an earlier launch of this
  // session with the layout that the plan reads: each device then reads its own part. Launches run in the order of
  // their tickets if they share a variable that one of them writes, or if one takes the other's result; otherwise they
  // run concurrently. At most `in_flight` run at once; a further one waits here until one ends. Every wait for a failed
  // launch, and every use of its results, throws its error. If it wrote no variable, launches made after its error was
  // reported (by a wait, or by the next launch, which throws it) run again; if it did, every later launch is an error
  // until `reload`. With several ranks, `op` is the number of its op, and it is over when it has ended on all of them:
  // if it fails on one rank, it fails on all.
  Launch launch(int plan, const Feeds& feeds = {}, const Results& arrays = {}, std::uint64_t op = 0);

  // Creates a value on devices of this rank, one part on each, like a result of a launch. Copies the bytes; does not
  // wait.
  Result device_put(const TensorType& whole, std::vector<DeviceShard> parts);

  // With several ranks: begins this rank's next op, which all ranks share (agreement.h). Without other ranks, does
  // nothing and returns 0. These functions throw the failure, if there is one.
  std::uint64_t begin_op(const OpDescription& op);
  void await_op(std::uint64_t op);  // until all ranks have begun it
  // A launch on devices of other ranks only. It has no results, counts as a launch of this rank, and fails if it fails
  // on the other ranks.
  Launch launch_remote(std::uint64_t op);
  // Begins the op when all ranks have asked for it, or not at all.
  std::variant<std::uint64_t, Refusal> ask_op(const OpDescription& op);
  void fail_ranks(const Error& error);  // reports a failure to all ranks

  // The two ranks that began different ops there, if that is the failure; -1 and 0 if only a wrong sum is known.
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op);
  std::vector<Exchange> exchanges(const Plan& plan) const;  // of its links to other ranks

  void wait_for_capacity();  // waits until `launch` would not wait

  // Waits until the launches made before are over; others may be made meanwhile.
  void wait_all_launches();

  // Requests a lock on some devices' parts of a variable, with their views in memory. Does not wait.
  VariableLock lock_variable(std::string_view name, const std::vector<std::pair<PlanDevice, View>>& parts, bool writes);
  HostArray read_variable(std::string_view name, const PlanDevice& device, const View& view);
  void write_variable(std::string_view name, const PlanDevice& device, const View& view, const HostArray& value);
  bool has_variable(std::string_view name, const PlanDevice& device) const;
  // On all devices, without waiting: its memory is freed with the last plan that uses it, and the next plan that names
  // it creates a new one.
  void forget_variable(std::string_view name);

  bool failed() const;  // later launches are errors until `reload`

  // Forgets all plans and variables, and any failure. Plan numbers are not reused.
  void reload();

  // With several ranks, after a failure and `reload`: `leave_ranks` closes all links to other ranks, and `join_ranks`
  // opens them again on new connections. All ranks call both, and none joins before all have left.
  void leave_ranks();
  void join_ranks();

  Counters counters();        // waits until no launch is in flight
  std::int64_t held_bytes();  // of results with a handle or used by a running launch, on all devices; at any time
  std::map<std::string, std::int64_t> arena_bytes();  // by device: the arena for registers and scratch of its plans
  // The current waits: one line per actor that is not idle. Never blocks on a worker that runs a kernel.
  std::string wait_graph();
  // The progress of this rank; with `waits` also its current call and the ranks that it waits for, as far as known
  // after `most` seconds. May be called from any thread.
  RankState state(bool waits, double most);
  // A line of text once other programs have been detected on the cores of teams (contention_monitor.h); "" before.
  std::string contention_text();
  // The last events of each worker. At any time, also while launches run and after one failed; `reload` clears them.
  std::vector<EventLog> events() const;

 private:
  struct FinishedLaunches;
  class AgreementGuard;
  friend class Launch;
  friend class Result;
  friend class VariableLock;
  void finished(LaunchRecord& record) override;
  bool rejects(const LaunchRecord& record) const override;
  bool producer_failed(const LaunchRecord& record) const override;
  void invalidate(std::uint64_t op) override;
  void grant(LaunchRecord& record) override;
  void on_protocol_error(const Error& why) override;
  void on_unloaded(LoadedPlan& loaded) override;

  Error unusable_error(std::string_view text) const;  // because of `failure_`, with its kind
  Error skipped_error(const LaunchRecord& record) const;
  void record_outcome(LaunchRecord& record, const LaunchEnd& end);
  void throw_failure(std::unique_lock<std::mutex>& lock);
  void throw_data_failure(std::unique_lock<std::mutex>& lock);
  void recover(std::unique_lock<std::mutex>& lock, std::uint64_t told);
  bool has_capacity() const;
  void wait_idle();
  template <class Predicate>
  void wait_over(std::unique_lock<std::mutex>& lock, Predicate done);  // on `over_`; while_waiting may throw
  std::shared_ptr<LoadedPlan> find(int plan) const;
  void free_unloaded();
  FinishedLaunches drop_finished();                  // under the lock; destroy the result after unlocking
  void queue(std::shared_ptr<LaunchRecord> record);  // under the lock
  void queue_variable_lock(std::shared_ptr<LaunchRecord> record);
  int active_launches() const;  // the number of launches that are not over; under the lock
  void count(const LoadedPlan& loaded, Counters& counters) const;
  void wait(const LaunchRecord& record);
  void feed(LaunchRecord& record, const Feeds& feeds) const;
  void feed(LaunchRecord& record, const Results& arrays);
  void stop();
  void drop_plans();
  int load_now(const Plan& plan, bool check_nan);
  void start_workers(const Plan& plan);
  void pin_workers(const Plan& plan);
  Device& device(const PlanDevice& device);
  std::string links_of(const Plan& plan);
  Launch launch_here(int plan, const Feeds& feeds, const Results& arrays, std::uint64_t op);
  // Called by the agreement: all ranks have ended a launch; a launch is invalid; a rank has failed, so all running
  // launches fail.
  void ended(std::uint64_t op, const LaunchEnd& end);
  void invalidated(std::uint64_t op, bool on_all_ranks);
  void on_rank_failure(const Error& error, std::optional<int> lost);
  Error abort_error(const LaunchRecord& record) const;
  void on_hang(const HangDiagnosis& diagnosis);  // called by the heartbeat
  void finish(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting);
  void finish_once(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting);
  void end_world(const std::function<void()>& while_waiting);  // waits until all ranks reach it
  void await_idle(const std::function<void()>& while_waiting);
  void abort_launches(const Error& error);
  void require_open() const;    // throws if the session has ended; under the lock
  void require_joined() const;  // likewise, and if it has left the other ranks
  std::shared_ptr<WorkerQuery> ask_workers();
  RankTime rank_time(const LaunchRecord& record) const;
  void record_flight(const Error& error, const RankState& state);
  void add_states(RankState& state, double most);

  SessionOptions options_;
  TickScale scale_;          // of events
  std::int64_t origin_ = 0;  // ns since 1970 at zero of that scale
  std::atomic<bool> flight_recorded_{false};
  const KernelTable* kernels_;
  std::vector<std::unique_ptr<AsyncKernel>> async_;
  std::map<std::string, std::unique_ptr<Device>> devices_;  // "rank.device"
  std::unique_ptr<Variables> variables_;
  int max_workers_ = 1;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<SourceReader> reader_;
  std::unique_ptr<ContentionMonitor> contention_monitor_;  // with teams; guarded by workers_mutex_
  std::vector<int> teams_;                                 // by worker: the largest team of the loaded plans
  std::vector<std::vector<int>> cpus_of_;                  // by worker, if pinned
  std::vector<std::unique_ptr<CpuSet>> cpu_sets_;          // sent to workers; kept until they have ended
  base::TimedMutex workers_mutex_;                         // guards the set of workers and the queries to them
  std::vector<std::shared_ptr<WorkerQuery>> queries_;      // kept until all workers have answered, which kernels delay
  std::shared_ptr<WorkerQuery> state_query_;               // the last one of `state`
  std::atomic<std::uint64_t> ops_{0};                      // the number of ops that this rank has begun or requested
  std::atomic<int> awaiting_threads_{0};  // threads of the program that wait for all ranks to begin an op
  std::int64_t launched_ = 0;
  std::mutex load_mutex_;                          // held while a plan is loaded and while workers are stopped
  std::mutex end_mutex_;                           // held while the session ends
  bool finished_ = false;                          // guarded by end_mutex_
  std::map<std::uint64_t, int> plans_of_program_;  // by program hash: the number of its plans with links to other ranks

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable over_;
  int next_plan_ = 0;
  std::map<int, std::shared_ptr<LoadedPlan>> loaded_;         // by number
  std::vector<std::shared_ptr<LoadedPlan>> unloading_plans_;  // until freed; workers may still use some
  Counters unloaded_counters_;                                // of freed plans
  std::vector<std::shared_ptr<LaunchRecord>> launches_;       // not over, or not yet dropped; by ticket
  std::uint64_t next_ticket_ = 1;
  std::optional<Error> failure_;  // of the first launch that failed such that no launch can run until a reload
  std::uint64_t failed_ticket_ = 0;
  // The first launch that failed and wrote no variable, until its error is reported to the program, at the latest by
  // the launch `report_within` launches later.
  struct DataFailure {
    Error error;
    std::uint64_t ticket = 0;
    std::int64_t index = 0;
  };
  static constexpr std::int64_t report_within = 64;
  std::optional<DataFailure> data_failure_;
  std::vector<std::unique_ptr<InvalidatedOp>> invalidated_;  // sent to worker 0
  std::int64_t idle_since_ = 0, idle_ = 0;     // ticks: since when no launch runs, and how long none ran in all
  bool aborted_ = false;                       // a rank failed, so all ranks abort
  bool left_ranks_ = false;                    // has left the other ranks
  std::string wait_text_;                      // then: the ranks that this rank waited for
  bool stopping_ = false;                      // workers are being stopped, or have been
  bool ended_ = false;                         // permanently
  std::atomic<bool> failure_reported_{false};  // `failure_` has been reported to the program
  int in_agreement_ = 0;                       // threads of the program that use the agreement
  std::unique_ptr<LaunchAbort> launch_abort_;  // sent to worker 0 after a failure
  std::unique_ptr<Agreement> agreement_;       // null without other ranks; last, because they call this session
  std::unique_ptr<Heartbeat> heartbeat_;       // likewise
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
