// The threads that execute the stages of data sets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/tuning/data_core_tuner.h"
#include "karez/runtime/idle_clock.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/profile/stage_log.h"
#include "karez/runtime/rank_state.h"
#include "karez/runtime/spin_wait.h"
#include "karez/runtime/stages/stall_monitor.h"
#include "karez/runtime/ticks.h"

namespace karez::runtime {

// A stream of elements that data threads produce; see DatasetReader.
class ServedStream;

// Threads that execute the acts of all streams. A thread takes a ready act of a short stage (act_costs.h) or else the
// one closest to the reader, and sleeps if no act is ready. Before an act that is not short, it wakes a thread for each
// other ready act, or starts one while all are busy, so acts that wait, such as for a disk, do not keep others from
// running; the lanes of the stages bound the number of threads. One mutex guards the protocol of all streams; acts run
// without it.
class DataThreads : public std::enable_shared_from_this<DataThreads> {
 public:
  // At most `limit` threads, which run only on these CPUs unless the list is empty. With 0 threads, readers execute the
  // acts while they wait. `cores`: those that acts of stages with automatic lanes may use at the same time; 0: these
  // CPUs, or all of the process. `wake_ns`: how long waking a thread takes; acts that take less time are short.
  explicit DataThreads(int limit = 256, std::vector<int> cpus = {}, int cores = 0, double wake_ns = 10'000);
  ~DataThreads();
  DataThreads(const DataThreads&) = delete;
  DataThreads& operator=(const DataThreads&) = delete;

  static void check_process();                          // throws in a forked process, which lacks the threads
  std::shared_ptr<ServedStream> serve(StageTree tree);  // an error after `end`
  // Starts a run. A run that is being read ends.
  void start(ServedStream& stream, const RunStart& run);
  // Waits for the next element; nothing at the end of the run or after `close`. Throws an error of a stage once; the
  // run has then ended. If an act of another stream calls it, the thread executes acts of this stream while it waits.
  // `while_waiting` is called about twenty times a second; its exceptions are propagated.
  std::optional<Element> next(const std::shared_ptr<ServedStream>& stream, const std::function<void()>& while_waiting);
  // Lets no further act begin, waits for running acts, and frees all elements. If `wait` is false or if an act of this
  // stream calls it, it does not wait, and the elements are freed when the last act has ended. `while_waiting` as
  // above.
  void close(const std::shared_ptr<ServedStream>& stream, bool wait = true,
             const std::function<void()>& while_waiting = nullptr);
  bool is_closed(const ServedStream& stream);
  // Whether a run is being read, and another stream of the same data set can continue it at this state at once.
  bool may_continue_at(const ServedStream& stream, const StreamState* state);
  // What the actors of the stream have done, as text (stage_report.h). `state`: the position of its reader.
  std::string explain(const ServedStream& stream, const StreamStateRef& state);
  // The bytes of elements of all streams (ServedStream::data_bytes).
  std::int64_t data_bytes(int held);
  // If a thread of the program waits for an element, adds this wait; adds the number of acts to the progress.
  void add_state(RankState& state);
  // The clock of the session whose launches use the elements; a session that exists calls its functions.
  const std::shared_ptr<IdleClock>& idle_clock() const { return idle_clock_; }
  // While a profile is on: adds the acts that end from now on, and the stalls, to a log.
  void add_log(const std::shared_ptr<StageLog>& log);
  void remove_log(const std::shared_ptr<StageLog>& log);
  StallsOfLaunch& stalls_of_launch() { return stalls_of_launch_; }
  // Choose the number of cores that kernels leave to stages while the program reads elements for its launches.
  // `wanted_cores` is the number, at first 0, out of these cores of the process; the caller makes plans that leave so
  // many and calls `set_cores`. Call `restart_measurement` if something other than the program's steps took time.
  void choose_cores(int cores);
  int wanted_cores() const { return wanted_cores_.load(std::memory_order_relaxed); }
  bool tries_cores() const { return tries_cores_.load(std::memory_order_relaxed); }  // the number may change soon
  void restart_measurement();
  // From now on, data threads and worker processes run only on these CPUs unless the list is empty; `cores` as for the
  // constructor.
  void set_cores(std::vector<int> cpus, int cores);
  double seconds_per_tick() const { return scale_.ns_per_tick() * 1e-9; }
  // Closes all streams, and ends the threads. If the act of a thread does not end within this time, the thread goes on
  // with it, and this object is never destroyed.
  void end(double seconds = 5);

 private:
  using Lock = std::unique_lock<std::mutex>;
  double seconds(std::int64_t ticks) const { return static_cast<double>(ticks) * scale_.ns_per_tick() * 1e-9; }
  // Seconds since the creation of this object. The scale is measured again in each call, so `seconds` of a time would
  // jump.
  double time_of(std::int64_t ticks) const {
    return static_cast<double>(scale_.ns(ticks, scale_.ns_per_tick())) * 1e-9;
  }
  // Execute one ready act, and return false if there is none. `lock` holds mutex_, and is released during the act.
  bool execute_one(Lock& lock);
  bool execute_one(ServedStream& stream, Lock& lock);
  // Delivers messages and wakes the reader. Needs mutex_.
  void deliver(ServedStream& stream, std::int64_t now);
  // Wakes a thread for each ready act that is not short and one for all short ones, or starts it if all are busy. Needs
  // mutex_; `notify` then notifies them.
  void wake_threads();
  // Notifies the threads that were woken, preferably without mutex_, because they need it first.
  void notify();
  // Poll for a short time before the calling thread sleeps: until the stream has changed, or until a thread is woken.
  // They do so only if all stages are short and no launch needs the cores. `lock` is released meanwhile.
  bool spin(ServedStream& stream, Lock& lock);
  void spin(Lock& lock);
  template <class Done> bool spin(SpinPolicy& policy, Lock& lock, Done&& done);
  void run(int number);
  // Need mutex_.
  void set_budget(int cores);
  // Bind the calling data thread, or a worker process, if the CPUs have changed. Returns whether the system has allowed
  // it.
  bool bind_thread();
  void bind_process(int process);
  void note_launch_read(std::int64_t now);
  static double computing(const ServedStream& stream, double seconds_per_tick);  // seconds
  // Add to the logs of profiles. Need mutex_.
  void log_act(StageSpan span, const std::vector<StageExecution>& group);
  void log_stall(ServedStream& stream, std::int64_t now);

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::shared_ptr<ServedStream>> streams_;
  std::size_t next_stream_ = 0;  // the stream that is served next, so that none waits for long
  const int limit_;
  const std::vector<int> all_cpus_;  // of the process
  std::vector<int> cpus_;
  int cpus_version_ = 0;                     // increased by `set_cores`
  std::map<int, int> processes_ = {};        // worker processes: the version of the CPUs to which they are bound
  std::optional<DataCoreTuner> core_tuner_;  // see `choose_cores`
  std::atomic<int> wanted_cores_ = 0;
  std::atomic<bool> tries_cores_ = false;
  std::int64_t noted_launches_ = 0;
  double ended_computing_ = 0;  // seconds for which stages of closed streams used cores
  CoreBudget core_budget_;
  const double wake_ns_;
  const bool has_cores_;  // a thread may poll while another one works
  const TickScale scale_;
  const std::shared_ptr<IdleClock> idle_clock_ = std::make_shared<IdleClock>();
  StallsOfLaunch stalls_of_launch_;
  std::vector<std::shared_ptr<StageLog>> logs_;  // of profiles
  std::uint64_t acts_ = 0;                       // that have ended
  int started_threads_ = 0;
  int lanes_ = 0;                    // of all streams, and of closed ones until their last act has ended
  std::atomic<int> wakes_ = 0;       // threads that were woken and have not run yet
  std::atomic<int> unnotified_ = 0;  // of them, those that `notify` has not notified
  int idle_ = 0, running_ = 0;       // sleeping threads, and threads that have not ended
  bool spinning_ = false;            // a data thread polls
  SpinPolicy spin_;
  std::atomic<bool> stop_ = false;
  bool left_threads_ = false;         // `end` did not wait for all threads
  std::condition_variable ended_;     // a thread has ended
  std::vector<std::thread> threads_;  // last, because the threads use the other members
};

}  // namespace karez::runtime
