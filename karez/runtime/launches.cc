// The session's side of launches.
#include "karez/runtime/launches.h"

#include <algorithm>

#include "karez/runtime/failure.h"
#include "karez/runtime/session.h"

namespace karez::runtime {
namespace {

// Both lists are sorted by variable.
bool meet(const std::vector<Touch>& a, const std::vector<Touch>& b) {
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

void Launches::queue(LaunchRecord& record) {
  queue_.push_back(&record);
  if (record.loaded != nullptr) ++record.loaded->queued;
  if (record.op != 0)
    std::erase_if(early_, [&](const auto& early) {
      if (early.first != record.op) return false;
      record.spoiled = true;
      record.released = record.released || early.second;
      return true;
    });
  begin();
}

void Launches::go_on(Loaded& loaded) {
  while (loaded.session_ports.session_done.ready()) end(loaded);
  begin();
}

void Launches::drop(LaunchRecord& record) {
  remove(record);
  begin();
}

void Launches::begin() {
  for (std::size_t at = 0; at < queue_.size();) {
    LaunchRecord& record = *queue_[at];
    if (record.runs || !may_begin(at)) ++at;
    else if (record.loaded != nullptr && session_.refuses(record)) remove(record);
    else start(record), ++at;
  }
}

bool Launches::may_begin(std::size_t at) const {
  const LaunchRecord& record = *queue_[at];
  for (std::size_t before = 0; before < at; ++before) {
    const LaunchRecord& earlier = *queue_[before];
    if (std::any_of(record.after.begin(), record.after.end(),
                    [&](const auto& maker) { return maker.get() == &earlier; }))
      return false;
    const bool one_plan = record.loaded != nullptr && earlier.loaded == record.loaded;
    if (one_plan ? !earlier.runs : meet(*earlier.touches, *record.touches)) return false;
  }
  return record.loaded == nullptr || record.loaded->session_ports.session_start.ready();
}

void Launches::start(LaunchRecord& record) {
  record.runs = true;
  if (record.loaded == nullptr) return session_.grant(record);
  Loaded& loaded = *record.loaded;
  const std::int64_t number = loaded.started++;
  Flight& flight = loaded.flight(number);
  flight.ticket.store(record.ticket, std::memory_order_relaxed);
  flight.record.store(&record, std::memory_order_relaxed);
  flight.number.store(number, std::memory_order_release);
  record.number = number;
  if (record.released) release_launches(loaded, number);
  if (loaded.poisoned == Loaded::none) loaded.unreleased.clear();
  for (const auto& [op, failed] : loaded.unreleased)
    if (std::find(early_.begin(), early_.end(), std::pair(op, true)) != early_.end()) release_launches(loaded, failed);
  if (record.spoiled || session_.maker_failed(record)) poison_launches(loaded, record, number);
  events_.look_at_clock();
  events_.launch(EventKind::launch_began, loaded.number, record.ticket);
  SessionPorts& ports = loaded.session_ports;
  ports.session_start.begin();
  ports.session_start.complete(
      [&](const Message& message) { protocol_.send_from_session(loaded, ports.start_mails, record.ticket, message); });
}

void Launches::end(Loaded& loaded) {
  const std::int64_t number = loaded.ended++;
  Flight& flight = loaded.flight(number);
  LaunchRecord& record = *flight.record.load(std::memory_order_relaxed);
  flight.number.store(-1, std::memory_order_relaxed);
  SessionPorts& ports = loaded.session_ports;
  ports.session_done.begin();
  events_.look_at_clock();
  events_.launch(EventKind::launch_ended, loaded.number, record.ticket);
  ports.session_done.complete(
      [&](const Message& message) { protocol_.send_from_session(loaded, ports.done_mails, record.ticket, message); });
  if (loaded.abandoned.load(std::memory_order_relaxed) || number >= loaded.poisoned.load(std::memory_order_relaxed)) {
    std::scoped_lock lock(loaded.breaking, record.mutex);
    if (!record.error && loaded.broken_by)
      record.error =
          Error(loaded.broken_by->kind, cat("launch ", record.ticket, " broke off: ", loaded.broken_by->what()),
                loaded.broken_by->where);
    record.skipped = !record.error;
    record.wrote = loaded.wrote.load(std::memory_order_relaxed) >= number;
    const bool by_data =
        !record.error || (record.error->kind != ErrorKind::peer && record.error->kind != ErrorKind::hang);
    if (record.op != 0 && !record.released) loaded.unreleased.emplace_back(record.op, number);
    record.broke = loaded.abandoned.load(std::memory_order_relaxed) || loaded.runs_ahead || !by_data;
  }
  remove(record);
}

// A launch that is over here. Later ones of its plan are poisoned with it, and hold their collectives.
void Launches::release_over(std::uint64_t op) {
  for (const LaunchRecord* record : queue_) {
    if (record->loaded == nullptr) continue;
    for (const auto& [other, number] : record->loaded->unreleased)
      if (other == op) release_launches(*record->loaded, number);
  }
}

// All ranks hear of it, those that have not come to this launch, too; each says so once its own part is poisoned.
void Launches::spoil(const SpoiledOp& spoiled) {
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [&](const LaunchRecord* record) { return record->op == spoiled.op; });
  if (found == queue_.end()) {
    early_.emplace_back(spoiled.op, spoiled.by_all);
    if (spoiled.by_all) release_over(spoiled.op);
  } else {
    LaunchRecord& record = **found;
    record.spoiled = true;
    record.released = record.released || spoiled.by_all;
    if (record.runs && spoiled.by_all) release_launches(*record.loaded, record.number);
    if (record.runs) poison_launches(*record.loaded, record, record.number);
  }
  if (!spoiled.by_all) session_.spoil(spoiled.op);
}

void Launches::remove(LaunchRecord& record) {
  queue_.erase(std::find(queue_.begin(), queue_.end(), &record));
  Loaded* loaded = record.loaded;
  session_.finished(record);  // from here on the record may be gone
  if (loaded != nullptr) unloading_.launch_over(*loaded);
}

}  // namespace karez::runtime
