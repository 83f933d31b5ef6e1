// Chooses and executes the acts of streams.
#include "karez/runtime/stages/data_threads.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "karez/runtime/session_thread.h"

namespace karez::runtime {

class ServedStream {
 public:
  explicit ServedStream(StageTree tree) : machine(std::make_unique<StageMachine>(std::move(tree))) {
    for (const plan::Stage& stage : machine->graph().stages) lanes += stage.lanes;
  }
  std::unique_ptr<StageMachine> machine;  // null after a close
  int lanes = 0;                          // the maximum number of acts at the same time
  int running = 0;                        // acts
  int closers = 0;                        // threads that wait in `close`
  bool closed = false;
  std::condition_variable changed;  // an element can be read, or the stream was closed, or an act of it has ended since
};

namespace {

void check_process() {
  require(!is_forked_child(), "this process was forked from a process with data threads, and lacks them");
}

// The stream whose act the calling thread executes.
thread_local const ServedStream* current_stream = nullptr;

}  // namespace

DataThreads::DataThreads(int limit) : limit_(limit) {
  require(limit >= 0 && limit <= 1024, "the limit of data threads must be between 0 and 1024, got ", limit);
}

DataThreads::~DataThreads() { end(); }

void DataThreads::end(double seconds) {
  Lock lock(mutex_);
  if (left_threads_) return;
  stop_ = true;
  const std::vector<std::shared_ptr<ServedStream>> streams = std::exchange(streams_, {});
  for (const auto& stream : streams) {
    stream->closed = true;
    stream->machine->cancel();
    stream->changed.notify_all();
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
  auto stream = std::make_shared<ServedStream>(std::move(tree));
  std::lock_guard lock(mutex_);
  require(!stop_, "the world has ended, so no data set can be read in it");
  streams_.push_back(stream);
  lanes_ += stream->lanes;
  return stream;
}

void DataThreads::start(ServedStream& stream, const RunStart& run) {
  check_process();
  std::vector<StageMachine::Slot> dropped;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  require(!stream.closed, "the iterator is closed");
  stream.machine->start(run);
  deliver(stream);
  dropped.swap(stream.machine->dropped());
}

bool DataThreads::is_closed(const ServedStream& stream) {
  std::lock_guard lock(mutex_);
  return stream.closed;
}

std::optional<Element> DataThreads::next(const std::shared_ptr<ServedStream>& stream,
                                         const std::function<void()>& while_waiting) {
  check_process();
  std::vector<StageMachine::Slot> dropped;  // destroyed after the lock is released
  Lock lock(mutex_);
  while (!stream->closed && stream->machine->reading() && !stream->machine->readable()) {
    if (limit_ == 0 || current_stream != nullptr) {
      if (execute_one(*stream, lock)) continue;
      require(limit_ > 0 || stream->closed, "no stage of the stream can act");
    }
    if (stream->changed.wait_for(lock, std::chrono::milliseconds(50)) == std::cv_status::timeout && while_waiting) {
      lock.unlock();
      while_waiting();
      lock.lock();
    }
  }
  if (stream->closed || !stream->machine->reading()) return std::nullopt;
  std::exception_ptr error;
  std::optional<Element> element;
  try {
    element = stream->machine->read();
  } catch (...) { error = std::current_exception(); }
  deliver(*stream);
  dropped.swap(stream->machine->dropped());
  lock.unlock();
  if (error) std::rethrow_exception(error);
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
    if (stream->running == 0) lanes_ -= stream->lanes;
    streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
    stream->changed.notify_all();
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

void DataThreads::run() {
  note_session_thread();
  Lock lock(mutex_);
  while (!stop_) {
    if (execute_one(lock)) continue;
    ++idle_;
    work_.wait(lock, [&] { return wakes_ > 0 || stop_; });
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
  StageMachine& machine = *stream.machine;
  plan::StageId ready;
  for (plan::StageId id : machine.graph().stages.ids())
    if (machine.ready(id)) ready = id;
  if (!ready.valid()) return false;
  std::unique_ptr<StageMachine> closed_machine;
  std::vector<StageMachine::Slot> dropped;
  std::optional<StageExecution> execution(machine.begin(ready));
  ++stream.running;
  lock.unlock();
  const ServedStream* outer = std::exchange(current_stream, &stream);
  machine.execute(*execution);
  current_stream = outer;
  execution->input = {};  // freed without the lock
  lock.lock();
  --stream.running;
  machine.complete(*execution);
  if (!stream.closed) {
    deliver(stream, true);
    dropped.swap(machine.dropped());
  } else if (stream.running == 0) {
    lanes_ -= stream.lanes;
    if (stream.closers == 0) closed_machine = std::move(stream.machine);
  }
  if (stream.closed) stream.changed.notify_all();
  else if (dropped.empty() && !execution->error) return true;
  lock.unlock();  // objects of the user are destroyed without the lock
  execution.reset();
  dropped.clear();
  closed_machine.reset();
  lock.lock();
  return true;
}

void DataThreads::deliver(ServedStream& stream, bool executes_next) {
  stream.machine->deliver_all();
  if (stream.machine->readable()) stream.changed.notify_all();
  int ready = executes_next ? -1 : 0;
  for (plan::StageId id : stream.machine->graph().stages.ids()) ready += stream.machine->ready(id);
  for (int i = 0; i < ready; ++i) {
    if (idle_ > 0) {
      --idle_, ++wakes_;
      work_.notify_one();
    } else if (running_ < std::min(limit_, lanes_) && !stop_) {
      try {
        threads_.emplace_back([this] { run(); });
      } catch (const std::system_error&) {
        if (running_ == 0) throw;  // otherwise the existing threads execute the act
        return;
      }
      ++running_;
    }
  }
}

}  // namespace karez::runtime
