// Chooses and executes the acts of streams.
#include "karez/runtime/stages/data_threads.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/data/stages/stage_scope.h"
#include "karez/device/cpu_budget.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/stages/served_stream.h"
#include "karez/runtime/stages/stream_stalls.h"
#include "karez/runtime/stages/thread_usage.h"

namespace karez::runtime {

namespace {

// The stream whose act the calling thread executes.
thread_local const ServedStream* current_stream = nullptr;
thread_local int current_cores = 0;  // that the act has of the core budget

// The number of the calling thread, if it is a data thread.
thread_local int current_thread = 0;
thread_local pid_t current_thread_id = 0;
thread_local ThreadSwitches thread_switches;

}  // namespace

DataThreads::DataThreads(int limit, std::vector<int> cpus, int cores, double wake_ns)
    : limit_(limit),
      all_cpus_(device::cpu_budget().cpus),
      cpus_(std::move(cpus)),
      wake_ns_(wake_ns),
      has_cores_(device::cpu_budget().cores > 1) {
  set_budget(cores);
  watch_forks();
  require(limit >= 0 && limit <= 1024, "the limit of data threads must be between 0 and 1024, got ", limit);
}

DataThreads::~DataThreads() { end(); }

void DataThreads::check_process() {
  require(!is_forked_child(),
          "this process was forked from a process with data threads and lacks them; fork before the first world is "
          "created, or use the start method 'spawn'");
}

void DataThreads::end(double seconds) {
  if (is_forked_child()) {  // its threads, and perhaps a holder of the mutex, do not exist
    new std::vector<std::thread>(std::move(threads_));
    return;
  }
  Lock lock(mutex_);
  if (left_threads_) return;
  stop_ = true;
  const std::vector<std::shared_ptr<ServedStream>> streams = std::exchange(streams_, {});
  for (const auto& stream : streams) {
    stream->closed = true;
    stream->machine->cancel();
    stream->notify_all();
  }
  work_.notify_all();
  const bool all_ended = ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return running_ == 0; });
  std::vector<std::thread> threads = std::exchange(threads_, {});
  const std::shared_ptr<DataThreads> self = weak_from_this().lock();
  left_threads_ = !all_ended && self;
  lock.unlock();
  if (left_threads_) {
    new std::shared_ptr<DataThreads>(self);
    for (std::thread& thread : threads) thread.detach();
    return;
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& stream : streams) close(stream);
}

std::shared_ptr<ServedStream> DataThreads::serve(StageTree tree) {
  check_process();
  auto stream =
      std::make_shared<ServedStream>(std::move(tree), static_cast<std::int64_t>(wake_ns_ / scale_.ns_per_tick()));
  std::lock_guard lock(mutex_);
  stream->own_cores = !cpus_.empty() || core_tuner_;
  stream->tune(core_budget_, limit_, wake_ns_ * 1e-9);
  require(!stop_, "the world has ended, so no data set can be read in it");
  streams_.push_back(stream);
  lanes_ += stream->lanes;
  return stream;
}

void DataThreads::start(ServedStream& stream, const RunStart& run) {
  check_process();
  std::vector<StageMachine::Slot> dropped;  // destroyed after the lock is released
  Lock lock(mutex_);
  require(!stream.closed, "the iterator is closed");
  // Running acts of an epoch that is not read to its end add to the old counts.
  if (stream.machine->reading()) stream.skip_counts = std::make_shared<data::SkipCounts>();
  stream.machine->start(run);
  deliver(stream, ticks());
  wake_threads();
  dropped.swap(stream.machine->dropped());
  lock.unlock();
  notify();
}

bool DataThreads::is_closed(const ServedStream& stream) {
  check_process();
  std::lock_guard lock(mutex_);
  return stream.closed;
}

bool DataThreads::may_continue_at(const ServedStream& stream, const StreamState* state) {
  std::lock_guard lock(mutex_);
  return !stream.closed && stream.machine->reading() && data::continues_at(stream.machine->tree(), state);
}

std::optional<Element> DataThreads::next(const std::shared_ptr<ServedStream>& stream,
                                         const std::function<void()>& while_waiting) {
  check_process();
  std::vector<StageMachine::Slot> dropped;  // destroyed after the lock is released
  Lock lock(mutex_, std::defer_lock);
  lock_polling(lock);
  std::unique_ptr<ReaderCount> waits;
  std::int64_t idle = -1;  // the idle time when the wait began
  std::optional<StreamWait> waiting;
  while (!stream->closed && stream->machine->reading() && !stream->machine->readable()) {
    if (idle < 0) idle = idle_clock_->idle(ticks());
    if (!waiting) waiting.emplace(*stream, core_budget_, current_cores, time_of(ticks()));
    if (limit_ == 0 || current_stream != nullptr) {
      if (execute_one(*stream, lock)) continue;
      require(limit_ > 0 || stream->closed, "no stage of the stream can act");
    }
    if (current_stream == nullptr && !waits) waits = std::make_unique<ReaderCount>(*stream);
    notify();
    if (spin(*stream, lock)) continue;
    if (stream->changed.wait_for(lock, std::chrono::milliseconds(50)) != std::cv_status::timeout) continue;
    // No thread was woken for an act that was expected to be short, but takes long, and others may be ready.
    wake_threads();
    if (while_waiting) {
      lock.unlock();
      try {
        while_waiting();
      } catch (...) {
        lock.lock();
        waiting.reset(), waits.reset();
        throw;
      }
      lock.lock();
    }
  }
  waiting.reset(), waits.reset();
  if (stream->closed || !stream->machine->reading()) return std::nullopt;
  std::exception_ptr error;
  std::optional<Element> element;
  try {
    element = stream->machine->read();
    if (element && stream->element_bytes == 0) stream->element_bytes = array_bytes(*element);
  } catch (...) { error = std::current_exception(); }
  const std::shared_ptr<data::SkipCounts> skip_counts = stream->skip_counts;
  const std::int64_t now = ticks();
  deliver(*stream, now);
  wake_threads();
  std::string warning;
  if (current_stream == nullptr) {
    warning = note_read(*stream, now, idle < 0 ? 0 : idle_clock_->idle(now) - idle, idle_clock_->launches());
    stalls_of_launch_.add(stream->stalls.counted());
    note_launch_read(now);
    if (!logs_.empty() && stream->stalls.counted() > 0) log_stall(*stream, now);
  }
  dropped.swap(stream->machine->dropped());
  lock.unlock();
  notify();
  if (!warning.empty()) base::note(base::LogLevel::warning, warning);
  if (error) std::rethrow_exception(error);
  if (!element) skip_counts->report();
  return element;
}

void DataThreads::close(const std::shared_ptr<ServedStream>& stream, bool wait,
                        const std::function<void()>& while_waiting) {
  if (is_forked_child()) return;          // its threads, and perhaps a holder of the mutex, do not exist
  std::unique_ptr<StageMachine> machine;  // destroyed after the lock is released
  Lock lock(mutex_);
  if (!stream->closed) {
    stream->closed = true;
    stream->machine->cancel();
    if (core_tuner_) ended_computing_ += computing(*stream, seconds_per_tick());
    if (stream->running == 0) lanes_ -= stream->lanes;
    streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
    stream->notify_all();
  }
  if ((!wait || current_stream == stream.get()) && stream->running > 0) return;
  ++stream->closers;
  while (stream->running > 0) {
    if (stream->changed.wait_for(lock, std::chrono::milliseconds(50)) == std::cv_status::no_timeout || !while_waiting)
      continue;
    lock.unlock();
    try {
      while_waiting();
    } catch (...) {
      lock.lock();
      --stream->closers;
      throw;
    }
    lock.lock();
  }
  --stream->closers;
  machine = std::move(stream->machine);
  lock.unlock();
}

void DataThreads::run(int number) {
  note_session_thread();
  current_thread = number;
  prctl(PR_SET_NAME, cat("karez-data-", number).c_str());
  device::lower_priority();
  Lock lock(mutex_);
  if (!bind_thread() && number == 1) {
    const std::string cores = join(cpus_, ", ");
    lock.unlock();
    base::note(base::LogLevel::warning, "the system does not let data threads run on the cores ", cores,
               " alone; they run on any core");
    lock.lock();
  }
  while (!stop_) {
    if (execute_one(lock)) continue;
    notify();
    ++idle_;
    spin(lock);
    work_.wait(lock, [&] { return wakes_ > 0 || stop_; });
    thread_switches.update();
    if (wakes_ > 0) --wakes_;
    else --idle_;
  }
  --running_;
  ended_.notify_all();
}

bool DataThreads::execute_one(Lock& lock) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t at = (next_stream_ + i) % streams_.size();
    const std::shared_ptr<ServedStream> stream = streams_[at];  // owned here, because close removes it from the list
    if (!execute_one(*stream, lock)) continue;
    next_stream_ = at + 1;
    return true;
  }
  return false;
}

bool DataThreads::execute_one(ServedStream& stream, Lock& lock) {
  if (stream.closed) return false;
  if (current_thread > 0) bind_thread();
  StageMachine& machine = *stream.machine;
  plan::StageId ready;
  for (plan::StageId id : machine.graph().stages.ids())
    if (machine.ready(id) && (!ready.valid() || stream.is_short(id) || !stream.is_short(ready))) ready = id;
  if (!ready.valid()) return false;
  std::unique_ptr<StageMachine> closed_machine;
  std::vector<StageMachine::Slot> dropped;
  std::vector<StageExecution> group = stream.begin(ready);
  const int count = static_cast<int>(group.size());
  const std::shared_ptr<data::SkipCounts> skip_counts = stream.skip_counts;
  ++stream.running;
  if (current_thread_id == 0) current_thread_id = gettid();
  const std::int64_t begin = ticks();
  stream.acts.push_back({ready, begin, current_thread, current_thread_id, &data::awaited_process()});
  stream.note_activity(ready, begin);
  if (stream.tuner) stream.tuner->note(stream.waiting > 0, time_of(begin));
  const bool short_act = stream.is_short(ready);
  if (!short_act) wake_threads();
  CpuShare& cpu = stream.cpu[static_cast<std::size_t>(ready.index)];
  const bool measures = stream.measures_computing(ready);
  const std::shared_ptr<const std::string> label = logs_.empty() ? nullptr : stream.label(ready);
  lock.unlock();
  notify();
  const ServedStream* outer = std::exchange(current_stream, &stream);
  const int outer_cores = std::exchange(current_cores, group[0].cores);
  const ThreadUsage usage = measures ? thread_usage(!short_act) : ThreadUsage();
  const data::RemoteTime outer_remote = std::exchange(data::remote_time(), {});
  {
    const data::SkipCountsScope counts(skip_counts);
    machine.execute(group);
  }
  const data::RemoteTime remote = std::exchange(data::remote_time(), outer_remote);
  current_stream = outer, current_cores = outer_cores;
  for (StageExecution& execution : group) execution.input = {};  // freed without the lock
  const std::int64_t end = ticks();
  // Without the time in which a request to another process waits for those before it.
  const std::int64_t own_time =
      remote.ns > 0 ? std::min(end - begin, static_cast<std::int64_t>(remote.ns / scale_.ns_per_tick())) : end - begin;
  double computing = -1;
  // A process that waits for a core before it reads the request is not waiting for IO: the share of its own time
  // counts.
  if (remote.ns > 0) computing = seconds(end - begin) * std::min(remote.cpu_ns / remote.ns, 1.0);
  else if (measures) computing = computing_seconds(usage, seconds(end - begin), !short_act);
  const bool preempted =
      stream.costs[static_cast<std::size_t>(ready.index)].is_long(end - begin) && thread_switches.only_preempted();
  if (!lock.try_lock()) {
    lock_polling(lock);
    thread_switches.update();
  }
  if (label && !logs_.empty()) log_act({label, current_thread, current_thread_id, begin, end}, group);
  if (remote.process != 0 && cpus_version_ > 0) bind_process(remote.process);
  --stream.running, acts_ += group.size();
  if (group[0].act.kind == plan::StageAct::Kind::element) {
    stream.times[static_cast<std::size_t>(ready.index)].acts += end - begin;
    if (!preempted) {
      stream.costs[static_cast<std::size_t>(ready.index)].add(end - begin);
      stream.groups[static_cast<std::size_t>(ready.index)].add(own_time, count);
    }
    if (computing >= 0) cpu.add(computing, seconds(end - begin));
    if (stream.tuner && !(preempted && stream.is_short(ready)))
      for (int i = 0; i < count; ++i)
        stream.tuner->add_act(ready, seconds(end - begin) / count, computing < 0 ? computing : computing / count);
  }
  stream.acts.erase(std::find_if(stream.acts.begin(), stream.acts.end(), [&](const ServedStream::RunningAct& act) {
    return act.since == begin && act.stage == ready && act.thread_id == current_thread_id;
  }));
  bool failed = false;
  for (StageExecution& execution : group) {
    machine.complete(execution);
    failed |= execution.error != nullptr;
  }
  if (!stream.closed) {
    deliver(stream, end);
    dropped.swap(machine.dropped());
    if (!dropped.empty()) wake_threads();  // to destroy objects may take long
  } else if (stream.running == 0) {
    lanes_ -= stream.lanes;
    if (stream.closers == 0) closed_machine = std::move(stream.machine);
  }
  if (stream.closed) stream.notify_all();
  else if (dropped.empty() && !failed) return true;
  lock.unlock();  // objects of the user are destroyed without the lock
  group.clear();
  dropped.clear();
  closed_machine.reset();
  lock.lock();
  return true;
}

void DataThreads::deliver(ServedStream& stream, std::int64_t now) {
  stream.machine->deliver_all();
  if (stream.machine->readable()) stream.notify_all();
  for (plan::StageId id : stream.machine->graph().stages.ids()) stream.note_activity(id, now);
  if (!stream.tuner) return;
  const double time = time_of(now);
  stream.tuner->note(stream.waiting > 0, time);
  stream.tuner->step(time);
  stream.wants_other_actors.store(stream.tuner->wants_other_actors(), std::memory_order_relaxed);
}

}  // namespace karez::runtime
