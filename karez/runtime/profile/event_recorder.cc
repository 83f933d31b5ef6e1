// Reads the rings of workers again and again.
#include "karez/runtime/profile/event_recorder.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/log.h"
#include "karez/runtime/session_thread.h"

namespace karez::runtime {
EventRecorder::EventRecorder(RecorderOptions options, std::function<std::vector<EventLog>()> read, int capacity,
                             std::function<void()> on_end)
    : options_(std::move(options)),
      read_(std::move(read)),
      capacity_(static_cast<std::size_t>(capacity)),
      on_end_(std::move(on_end)),
      skip_(options_.skip) {
  require(options_.launches >= 0, "profile: the number of launches must be at least 0, got ", options_.launches);
  require(options_.skip >= 0, "profile: the number of skipped launches must be at least 0, got ", options_.skip);
}

EventRecorder::~EventRecorder() { end(); }

void EventRecorder::start() {
  thread_ = std::thread([this] { run(); });
}

void EventRecorder::add_plan(std::int32_t number, const Plan& plan) {
  auto copy = std::make_shared<const Plan>(plan);
  std::lock_guard lock(mutex_);
  recording_.plans.emplace(number, std::move(copy));
}

void EventRecorder::add_launch(const RecordedLaunch& launch) {
  std::lock_guard lock(mutex_);
  if (complete_ || stop_ || (skip_ > 0 && skip_-- > 0)) return;
  if (options_.launches > 0 && static_cast<std::int64_t>(recording_.launches.size()) == options_.launches) return;
  recording_.launches.push_back(launch);
  running_.insert(static_cast<std::uint32_t>(launch.ticket));
}

std::size_t EventRecorder::read_events() {
  std::lock_guard reading(read_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (complete_ || stop_) return 0;
  }
  std::vector<EventLog> logs = read_();
  std::size_t most = 0;
  std::lock_guard lock(mutex_);
  recording_.workers.resize(std::max(recording_.workers.size(), logs.size()));
  events_.resize(recording_.workers.size());
  for (std::size_t worker = 0; worker < logs.size(); ++worker) {
    std::vector<Event>& events = logs[worker].events;
    most = std::max<std::size_t>(most, logs[worker].entries);
    if (recording_.launches.empty() || events.empty()) continue;
    for (const Event& event : events)
      if (event.kind == EventKind::launch_ended) running_.erase(event.ticket);
    const std::size_t count = std::min(events.size(), options_.max_events - kept_);
    recording_.workers[worker].overwritten += logs[worker].overwritten + events.size() - count;
    events.resize(count);
    events.shrink_to_fit();
    kept_ += count;
    events_[worker].push_back(std::move(events));
  }
  complete_ = options_.launches > 0 && running_.empty() &&
              static_cast<std::int64_t>(recording_.launches.size()) == options_.launches;
  return most;
}

void EventRecorder::drain() { read_events(); }

void EventRecorder::run() {
  note_session_thread();
  prctl(PR_SET_NAME, "karez-profile");
  using std::chrono::microseconds;
  microseconds interval(1000);
  std::unique_lock lock(mutex_);
  while (!stop_ && !complete_) {
    wake_.wait_for(lock, interval, [&] { return stop_; });
    if (stop_) return;
    lock.unlock();
    const std::size_t events = read_events();
    if (events > capacity_ / 2) interval = std::max(interval / 2, microseconds(100));
    else if (events < capacity_ / 8) interval = std::min(interval * 3 / 2, microseconds(10'000));
    lock.lock();
  }
  if (!complete_) return;
  lock.unlock();
  on_end_();
  report_end();
}

void EventRecorder::report_end() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(end_reported_, true) || !options_.on_end) return;
  }
  try {
    options_.on_end();
  } catch (const std::exception& error) {
    base::note(base::LogLevel::warning, "the end of a profile failed: ", error.what());
  }
}

void EventRecorder::end() {
  if (is_forked_child()) {  // it lacks the thread
    if (thread_.joinable()) thread_.detach();
    return;
  }
  std::lock_guard ending(end_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
  }
  read_events();
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool EventRecorder::ended() const {
  std::lock_guard lock(mutex_);
  return complete_ || stop_;
}

Recording EventRecorder::recording() const {
  std::lock_guard lock(mutex_);
  Recording out = recording_;
  for (std::size_t worker = 0; worker < events_.size(); ++worker)
    for (const std::vector<Event>& events : events_[worker])
      out.workers[worker].events.insert(out.workers[worker].events.end(), events.begin(), events.end());
  return out;
}

}  // namespace karez::runtime
