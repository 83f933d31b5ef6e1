// Begins and ends profiles of a session.
#include <algorithm>
#include <memory>

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/profile/event_recorder.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {
namespace {

constexpr double long_call_ns = 100'000;

}  // namespace

std::shared_ptr<EventRecorder> Session::record_events(const RecorderOptions& options) {
  const auto position = std::make_shared<PoolPosition>(workers_->end_of_events());
  auto recorder = std::make_shared<EventRecorder>(
      options, [this, position] { return workers_->events_since(*position, recorded_kinds); }, options_.events,
      [this] {
        std::lock_guard lock(mutex_);
        time_calls();
      });
  std::lock_guard lock(mutex_);
  require_open();
  for (const auto& [number, loaded] : loaded_) recorder->add_plan(number, loaded->plan);
  recorders_.push_back(recorder);
  time_calls();
  recorder->start();
  return recorder;
}

void Session::end_recording(const std::shared_ptr<EventRecorder>& recorder) {
  recorder->end();  // without the lock, which its thread may need
  std::lock_guard lock(mutex_);
  recorders_.erase(std::remove(recorders_.begin(), recorders_.end(), recorder), recorders_.end());
  time_calls();
}

void Session::time_calls() {
  const bool on =
      std::any_of(recorders_.begin(), recorders_.end(), [](const auto& recorder) { return !recorder->ended(); });
  const auto long_call =
      on ? std::max<std::int64_t>(static_cast<std::int64_t>(long_call_ns / scale_.ns_per_tick()), 1) : std::int64_t{0};
  for (const auto& [number, loaded] : loaded_) {
    loaded->long_call.store(long_call, std::memory_order_relaxed);
    loaded->observes_calls.store(on || loaded->check_nan, std::memory_order_relaxed);
  }
}

void Session::end_recorders() {
  std::vector<std::shared_ptr<EventRecorder>> recorders;
  {
    std::lock_guard lock(mutex_);
    recorders = recorders_;
  }
  for (const auto& recorder : recorders) {
    recorder->end();
    recorder->report_end();
  }
}

Recording Session::recording(const EventRecorder& recorder) const {
  Recording out = recorder.recording();
  out.workers = to_ns(std::move(out.workers));
  const double rate = scale_.ns_per_tick();
  for (RecordedLaunch& launch : out.launches) launch.made = scale_.ns(launch.made, rate);
  return out;
}

}  // namespace karez::runtime
