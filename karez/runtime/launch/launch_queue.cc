// Begins and ends launches in order, and poisons those that failed on another rank.
#include "karez/runtime/launch/launch_queue.h"

#include <algorithm>

#include "karez/runtime/launch/failure.h"

namespace karez::runtime {
namespace {

// Both lists are sorted by variable.
bool conflict(const std::vector<VariableAccess>& a, const std::vector<VariableAccess>& b) {
  const std::less<> before;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (before(x->variable, y->variable)) ++x;
    else if (before(y->variable, x->variable)) ++y;
    else if (x->writes || y->writes) return true;
    else ++x, ++y;
  }
  return false;
}

}  // namespace

void LaunchQueue::queue(LaunchRecord& record) {
  queue_.push_back(&record);
  if (record.loaded != nullptr) ++record.loaded->queued;
  if (record.op != 0)
    std::erase_if(early_invalidations_, [&](const auto& early) {
      if (early.first != record.op) return false;
      record.invalidated = true;
      record.released = record.released || early.second;
      return true;
    });
  begin();
}

void LaunchQueue::continue_launches(LoadedPlan& loaded) {
  while (loaded.session_ports.session_done.ready()) end(loaded);
  begin();
}

void LaunchQueue::drop(LaunchRecord& record) {
  remove(record);
  begin();
}

void LaunchQueue::begin() {
  for (std::size_t at = 0; at < queue_.size();) {
    LaunchRecord& record = *queue_[at];
    if (record.running || !may_begin(at)) ++at;
    else if (record.loaded != nullptr && owner_.rejects(record)) remove(record);
    else start(record), ++at;
  }
}

bool LaunchQueue::may_begin(std::size_t at) const {
  const LaunchRecord& record = *queue_[at];
  for (std::size_t before = 0; before < at; ++before) {
    const LaunchRecord& earlier = *queue_[before];
    if (std::any_of(record.producers.begin(), record.producers.end(),
                    [&](const auto& producer) { return producer.get() == &earlier; }))
      return false;
    const bool same_plan = record.loaded != nullptr && earlier.loaded == record.loaded;
    if (same_plan ? !earlier.running : conflict(*earlier.accesses, *record.accesses)) return false;
  }
  return record.loaded == nullptr || record.loaded->session_ports.session_start.ready();
}

void LaunchQueue::start(LaunchRecord& record) {
  record.running = true;
  if (record.loaded == nullptr) return owner_.grant(record);
  LoadedPlan& loaded = *record.loaded;
  const std::int64_t number = loaded.started++;
  ActiveLaunch& active_launch = loaded.active_launch(number);
  active_launch.ticket.store(record.ticket, std::memory_order_relaxed);
  active_launch.record.store(&record, std::memory_order_relaxed);
  active_launch.number.store(number, std::memory_order_release);
  record.number = number;
  if (record.released) release_launches(loaded, number);
  if (loaded.poisoned == LoadedPlan::none) loaded.unreleased.clear();
  for (const auto& [op, failed] : loaded.unreleased)
    if (std::find(early_invalidations_.begin(), early_invalidations_.end(), std::pair(op, true)) !=
        early_invalidations_.end())
      release_launches(loaded, failed);
  if (record.invalidated || owner_.producer_failed(record)) poison_launches(loaded, record, number);
  events_.update_time();
  events_.launch(EventKind::launch_began, loaded.number, record.ticket);
  SessionPorts& ports = loaded.session_ports;
  ports.session_start.begin();
  ports.session_start.complete(
      [&](const Message& message) { protocol_.send_from_session(loaded, ports.start_mails, record.ticket, message); });
}

void LaunchQueue::end(LoadedPlan& loaded) {
  const std::int64_t number = loaded.ended++;
  ActiveLaunch& active_launch = loaded.active_launch(number);
  LaunchRecord& record = *active_launch.record.load(std::memory_order_relaxed);
  active_launch.number.store(-1, std::memory_order_relaxed);
  SessionPorts& ports = loaded.session_ports;
  ports.session_done.begin();
  events_.update_time();
  events_.launch(EventKind::launch_ended, loaded.number, record.ticket);
  ports.session_done.complete(
      [&](const Message& message) { protocol_.send_from_session(loaded, ports.done_mails, record.ticket, message); });
  if (loaded.abandoned.load(std::memory_order_relaxed) || number >= loaded.poisoned.load(std::memory_order_relaxed)) {
    std::scoped_lock lock(loaded.error_mutex, record.mutex);
    if (!record.error && loaded.collective_error)
      record.error = Error(loaded.collective_error->kind,
                           cat("launch ", record.ticket, " was aborted: ", loaded.collective_error->what()),
                           loaded.collective_error->where);
    record.skipped = !record.error;
    record.has_written = loaded.last_write.load(std::memory_order_relaxed) >= number;
    const bool data_error =
        !record.error || (record.error->kind != ErrorKind::peer && record.error->kind != ErrorKind::hang);
    if (record.op != 0 && !record.released) loaded.unreleased.emplace_back(record.op, number);
    record.plan_unusable = loaded.abandoned.load(std::memory_order_relaxed) || loaded.runs_ahead || !data_error;
  }
  remove(record);
}

// Releases the later launches of a plan whose launch of this op has ended on this rank. They were poisoned together
// with that launch, and their collectives have been held back.
void LaunchQueue::release_ended(std::uint64_t op) {
  for (const LaunchRecord* record : queue_) {
    if (record->loaded == nullptr) continue;
    for (const auto& [other, number] : record->loaded->unreleased)
      if (other == op) release_launches(*record->loaded, number);
  }
}

// All ranks receive an InvalidatedOp, even ranks that have not reached the launch. Each rank reports when its part of
// the launch is poisoned.
void LaunchQueue::invalidate(const InvalidatedOp& invalidated) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const LaunchRecord* record) { return record->op == invalidated.op; });
  if (found == queue_.end()) {
    early_invalidations_.emplace_back(invalidated.op, invalidated.on_all_ranks);
    if (invalidated.on_all_ranks) release_ended(invalidated.op);
  } else {
    LaunchRecord& record = **found;
    record.invalidated = true;
    record.released = record.released || invalidated.on_all_ranks;
    if (record.running && invalidated.on_all_ranks) release_launches(*record.loaded, record.number);
    if (record.running) poison_launches(*record.loaded, record, record.number);
  }
  if (!invalidated.on_all_ranks) owner_.invalidate(invalidated.op);
}

void LaunchQueue::remove(LaunchRecord& record) {
  queue_.erase(std::find(queue_.begin(), queue_.end(), &record));
  LoadedPlan* loaded = record.loaded;
  owner_.finished(record);  // after this call the record may be destroyed
  if (loaded != nullptr) unloader_.on_launch_end(*loaded);
}

}  // namespace karez::runtime
