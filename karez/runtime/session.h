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
class LaunchQueue;
class SourceReader;
class PlanUnloader;
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
  int workers = 0;  // threads at most; 0: as many as usable cores. Never more than cores, never more than plans ask for
  bool poison = poison_by_default;  // fill fresh slots and scratch with a pattern that no correct plan reads
  int spin_microseconds =
      20;             // how long an idle worker looks for messages before it parks; teams of more than one make it 0
  int events = 4096;  // entries of each worker's ring, rounded up to a power of two; 55 bytes each
  int in_flight = 4;  // launches that may be under way at once; a further one waits in `launch`. Results that are read
                      // late hold none up
  bool check_nan = false;  // look at the results of every call: see check_finite.h
  // Called some twenty times a second by a thread that waits for launches; what it throws ends the wait, not what is
  // waited for.
  std::function<void()> while_waiting = {};
  bool pin = false;  // bind each worker and its kernels' teams to cores of their own, as many as the largest team
  comm::Peers* peers = nullptr;     // the other ranks, where there are any; for this session alone, and they outlive it
  HangTimeouts hang_timeouts = {};  // over them
  std::string flight = {};  // a folder for what the workers did last, written when something fails (flight.h); "": none
  // For tests.
  Delays delays = {};
  bool order_arena_plans = true;  // plans whose blocks lie in one arena; otherwise they spoil each other's values
  std::function<void(Plan&)> on_plan =
      {};  // told each plan whose links are compared with other ranks': it may change it
  std::function<void(comm::Endpoint&)> on_endpoint =
      {};  // told each endpoint of a plan that is loaded: it may put links of its own there
};

// One output of one launch, on its devices: the bytes stay until the last handle goes. Copies share it. It may outlive
// the Session, but then be neither asked nor read.
class Result {
 public:
  Result() = default;
  const TensorType& type() const;
  bool done() const;                     // the launch is
  void wait() const;                     // for the launch; rethrows its error
  HostArray read() const;                // waits; the whole, put together from the parts
  std::vector<HostArray> local() const;  // waits; each device's part, in the order of the devices' names
  std::shared_ptr<const std::byte> bytes()
      const;  // waits; those of a part that is the whole, where they lie. Null: no part is

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

// What one device has of a value that the user gives.
struct DeviceShard {
  PlanDevice place;
  std::vector<std::int64_t> begin;  // in the whole
  Shape shape;
  HostArray value;  // its elements
};

// One launch's future. Copies share it; it may outlive the wait, not the Session.
class Launch {
 public:
  void wait() const;  // rethrows the launch's first error, with its kind, actor, device and the user's line
  bool done() const;
  std::uint64_t ticket() const;
  std::size_t results() const { return values_->size(); }
  Result result(std::size_t i) const;          // in the order of the plan's fetches; waits for nothing
  Result result(std::string_view name) const;  // unknown: an error that lists the names
  std::optional<std::size_t> place_of(std::string_view name) const;  // among them; none: no such fetch here
  HostArray output(std::string_view name) const { return result(name).read(); }
  std::vector<std::pair<std::string, HostArray>> outputs() const;  // waits, and reads them all
  Launch without_results() const;                                  // to wait for it, and not to keep what it makes

 private:
  friend class Session;
  using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;
  Launch(std::shared_ptr<LaunchRecord> record, std::shared_ptr<const DeviceValues> held)
      : record_(std::move(record)),
        values_(std::move(held)) {}
  std::shared_ptr<LaunchRecord> record_;
  std::shared_ptr<const DeviceValues> values_;
};

// A client's turn at a variable: it comes when the launches made before that meet it are over, and those made later
// wait for its end. Reading and writing wait for it. The first worker grants it, between two acts. Whoever holds one
// must not wait for launches made later (nor make more than fit, load, reload or count): they may wait for him.
class VariableLock {
 public:
  ~VariableLock();
  VariableLock(VariableLock&&) noexcept;
  VariableLock& operator=(VariableLock&&) = delete;

  std::vector<HostArray> read() const;                     // each part row-major, however it lies there
  void write(const std::vector<HostArray>& values) const;  // what lies between strided elements stays

 private:
  friend class Session;
  struct Shard;
  VariableLock(std::shared_ptr<LaunchRecord> record, std::string_view name, std::vector<Shard> parts);
  void wait() const;
  std::shared_ptr<LaunchRecord> record_;
  std::string name_;
  std::vector<Shard> parts_;
};

class Session {
 public:
  Session(SessionOptions options, const KernelTable& kernels);  // the table must outlive it
  ~Session();  // ends it: well, or in haste where an exception unwinds the stack
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Ends the session for good, once; a second call does nothing. Later calls are errors; what a launch that ended well
  // made can still be read.
  //   well       waits for the launches made before, and for the other ranks to end their sessions too. What
  //   `while_waiting` throws ends the wait
  //              alone: call `end` again
  //   in haste   launches that are under way fail: a call of a kernel or source that runs is waited for, nothing else.
  //   The other ranks hear `why`
  // Then no thread of the session is left. Not to be called by a kernel or a source.
  enum class ShutdownMode { graceful, immediate };
  void end(ShutdownMode how, const std::string& why = "it ends its world, because something was thrown");
  void check_open() const;  // throws what later calls throw, once it has ended

  void add(AsyncKernel kernel);  // before a plan that names it

  // Verifies the plan, resolves its kernels (a missing one: an error that lists what exists), allocates its blocks,
  // joins its variables with those of the same device and name (another layout is an error), runs `setup`. The number
  // returned names it in `launch`.
  int load(const Plan& plan, bool check_nan = false);  // check_nan: of its launches alone

  // Forgets the plan: launches of it that were made before run to their end, then its memory, actors, kernels and links
  // go; variables stay. Never waits; other plans go on. The number is not given again. False: there is no such plan (a
  // reload may have forgotten it).
  bool unload(int plan);
  int plans();  // how many hold memory: loaded, or unloaded and still on their way out

  // Runs the plan once. Every binding of an input needs a feed of the right type, or a result of an earlier launch of
  // this session that lies as the plan reads it: each device then reads its own part. Launches run in the order of
  // their tickets where they share a variable that one of them writes or one takes the other's result, and beside each
  // other where they do not; `in_flight` of them, then this waits for one to end. Every wait for a launch that failed,
  // and every use of its results, throws its error. If it wrote no variable, launches made after the program has been
  // told of it (by a wait, or by the next launch, which throws it) run again; if it did, every later launch is an error
  // until `reload`. With several ranks it is given the number of its op, and is over when it has ended on all of them:
  // where it fails on one, all of them fail.
  Launch launch(int plan, const Feeds& feeds = {}, const Results& arrays = {}, std::uint64_t op = 0);

  // A value on devices of this rank, one part on each, as a launch's result lies there. Its bytes are copied; it waits
  // for nothing.
  Result device_put(const TensorType& whole, std::vector<DeviceShard> parts);

  // With several ranks: what this rank does next, as the others do (agreement.h); with none it is nothing, and number
  // 0. All throw what has failed.
  std::uint64_t begin_op(const OpDescription& op);
  void await_op(std::uint64_t op);  // until all ranks have begun it
  // A launch in which no device of this rank takes part. It has no results, counts as a launch of this rank, and fails
  // as it does on the others.
  Launch launch_remote(std::uint64_t op);
  std::variant<std::uint64_t, Refusal> ask_op(
      const OpDescription& op);         // begins it when all ranks have asked for it, or not at all
  void fail_ranks(const Error& error);  // for all of them
  // Two that began something else there, if that is what failed; -1 and 0 where all that is known is that the sums of
  // some are wrong.
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op);
  std::vector<Exchange> exchanges(const Plan& plan) const;  // what its links to other ranks carry

  void wait_for_capacity();  // until `launch` would not wait

  // Until the launches made before are over; others may be made meanwhile.
  void wait_all_launches();

  // A turn at what some devices hold of a variable; each view says how it lies there. It is asked for at once, and
  // never waits.
  VariableLock lock_variable(std::string_view name, const std::vector<std::pair<PlanDevice, View>>& parts, bool writes);
  HostArray read_variable(std::string_view name, const PlanDevice& device, const View& view);
  void write_variable(std::string_view name, const PlanDevice& device, const View& view, const HostArray& value);
  bool has_variable(std::string_view name, const PlanDevice& device) const;
  // On all devices, waiting for nothing: its memory goes with the last plan that uses it, and the next plan to name it
  // begins a new one.
  void forget_variable(std::string_view name);

  bool failed() const;  // later launches are errors until `reload`

  // Forgets all plans and variables, and with them a failure. Numbers of plans are not given again.
  void reload();

  // With several ranks, after a failure and `reload`: ends what goes between them, so that no link to another rank is
  // left, and begins it anew on new connections. All ranks do both, and none joins before all have left.
  void leave_ranks();
  void join_ranks();

  Counters counters();        // waits until no launch is in flight
  std::int64_t held_bytes();  // of results that somebody holds or a launch under way uses, on all devices; at any time
  std::map<std::string, std::int64_t> arena_bytes();  // by device: what its plans share for registers and scratch
  // Who waits for what, now: one line per actor that is not at rest. Never blocks on a worker that is inside a kernel.
  std::string wait_graph();
  // How far this rank has come; with `waits` also what it is inside of and which ranks it waits for, as far as that is
  // known after `most` seconds. From any thread.
  RankState state(bool waits, double most);
  // A line once other programs were noticed on the cores that teams compute on (crowd_watch.h); "" before.
  std::string contention_text();
  // By worker: what it did last. At any time, also while launches run and after one failed; `reload` forgets it.
  std::vector<EventLog> events() const;

 private:
  struct FinishedLaunches;
  class AgreementGuard;
  friend class Launch;
  friend class Result;
  friend class VariableLock;
  friend class LaunchQueue;
  friend class PlanUnloader;
  friend class Worker;
  // Called by workers.
  void finished(LaunchRecord& record);                     // it is over here; the record may go
  bool rejects(const LaunchRecord& record) const;          // nothing runs any more
  bool producer_failed(const LaunchRecord& record) const;  // it takes a result of a launch that failed
  void invalidate(std::uint64_t op);                       // the launch fails here: the other ranks hear of it
  void grant(LaunchRecord& record);                        // a client's turn has come
  void on_protocol_error(const Error& why);                // a protocol error: everything in flight ends here
  void on_unloaded(LoadedPlan& loaded);                    // no worker touches it any more; a client's thread frees it
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

  Error unusable_error(std::string_view text) const;  // since `failure_`, and of its kind
  Error skipped_error(const LaunchRecord& record) const;
  void record_outcome(LaunchRecord& record, const LaunchEnd& end);
  void throw_failure(std::unique_lock<std::mutex>& lock);
  void throw_data_failure(std::unique_lock<std::mutex>& lock);
  void recover(std::unique_lock<std::mutex>& lock, std::uint64_t told);
  bool has_capacity() const;
  void wait_idle();
  template <class Predicate>
  void wait_over(std::unique_lock<std::mutex>& lock,
                 Predicate done);  // until what `over_` tells of is done, or while_waiting throws
  std::shared_ptr<LoadedPlan> find(int plan) const;
  void free_unloaded();
  FinishedLaunches drop_finished();                  // under the lock; what it gives goes when the lock is open again
  void queue(std::shared_ptr<LaunchRecord> record);  // under the lock
  void queue_variable_lock(std::shared_ptr<LaunchRecord> record);
  int active_launches() const;  // launches that are not over; under the lock
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
  // Called by the agreement: all ranks have ended a launch; one rank has failed, so that nothing under way ends well.
  void ended(std::uint64_t op, const LaunchEnd& end);
  void invalidated(std::uint64_t op, bool on_all_ranks);
  void on_rank_failure(const Error& error, std::optional<int> lost);
  Error abort_error(const LaunchRecord& record) const;
  void on_hang(const HangDiagnosis& diagnosis);  // called by the heart
  void finish(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting);
  void finish_once(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting);
  void end_world(const std::function<void()>& while_waiting);  // waits for all ranks to come to it
  void await_idle(const std::function<void()>& while_waiting);
  void abort_launches(const Error& error);
  void require_open() const;    // an error once it has ended; under the lock
  void require_joined() const;  // likewise, and where it has left the other ranks
  std::shared_ptr<WorkerQuery> ask_workers();
  RankTime rank_time(const LaunchRecord& record) const;
  void record_flight(const Error& error, const RankState& state);
  void add_states(RankState& state, double most);

  SessionOptions options_;
  TickScale scale_;                           // of events
  std::int64_t origin_ = 0;                   // ns since 1970 at that scale's zero
  std::atomic<bool> flight_recorded_{false};  // the flight
  const KernelTable* kernels_;
  std::vector<std::unique_ptr<AsyncKernel>> async_;
  std::map<std::string, std::unique_ptr<Device>> devices_;  // "rank.device"
  std::unique_ptr<Variables> variables_;
  int max_workers_ = 1;  // of workers
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<SourceReader> reader_;
  std::unique_ptr<ContentionMonitor>
      contention_monitor_;                 // since a plan with teams of more than one was loaded; guarded by `asking_`
  std::vector<int> teams_;                 // by worker: the largest team of a plan that was loaded
  std::vector<std::vector<int>> cpus_of_;  // by worker, where they are pinned
  std::vector<std::unique_ptr<CpuSet>> cpu_sets_;  // to workers: kept until they have ended
  base::TimedMutex workers_mutex_;                 // guards who the workers are, and what they are asked
  std::vector<std::shared_ptr<WorkerQuery>>
      queries_;                               // kept until all answered: a worker inside a kernel answers later
  std::shared_ptr<WorkerQuery> state_query_;  // by `state`, last
  std::atomic<std::uint64_t> ops_{0};         // that began, were ended or awaited
  std::atomic<int> awaiting_threads_{0};      // how many threads of the program wait for all ranks to begin one
  std::int64_t launched_ = 0;
  std::mutex load_mutex_;                          // held while a plan is loaded, and while the workers go
  std::mutex end_mutex_;                           // held while the session ends
  bool finished_ = false;                          // under `ending_`
  std::map<std::uint64_t, int> plans_of_program_;  // by program: how many plans of it have had links to other ranks
  std::atomic<bool> broken_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable over_;
  int next_plan_ = 0;
  std::map<int, std::shared_ptr<LoadedPlan>> loaded_;  // by number
  std::vector<std::shared_ptr<LoadedPlan>>
      unloading_plans_;                                  // unloaded; a worker may yet touch those that have not left
  Counters unloaded_counters_;                           // what plans counted that are freed
  std::vector<std::shared_ptr<LaunchRecord>> launches_;  // not over, or not yet dropped; by ticket
  std::uint64_t next_ticket_ = 1;
  std::optional<Error> failure_;  // of the first launch that failed so that nothing can run any more
  std::uint64_t failed_ticket_ = 0;
  // Of the first launch that failed and wrote nothing, until the program has been told: by a launch made so many later
  // at the latest.
  struct DataFailure {
    Error error;
    std::uint64_t ticket = 0;
    std::int64_t index = 0;
  };
  static constexpr std::int64_t report_within = 64;
  std::optional<DataFailure> data_failure_;
  std::vector<std::unique_ptr<InvalidatedOp>> invalidated_;  // told to worker 0
  std::int64_t idle_since_ = 0, idle_ = 0;     // ticks: since when no launch is under way, and how long none was
  bool aborted_ = false;                       // for all ranks
  bool left_ranks_ = false;                    // has left the other ranks
  std::string wait_text_;                      // then: whom this rank waited for, as text
  bool stopping_ = false;                      // workers are, or will be, no more
  bool ended_ = false;                         // for good
  std::atomic<bool> failure_reported_{false};  // the program has been told of `failure_`
  int in_agreement_ = 0;                       // threads of the program that are inside of it
  std::unique_ptr<LaunchAbort> launch_abort_;  // then: told to worker 0
  std::unique_ptr<Agreement> agreement_;       // none where this rank is alone; last: it calls this session, as does
  std::unique_ptr<Heartbeat> heartbeat_;       // this
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
