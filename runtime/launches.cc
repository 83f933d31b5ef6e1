// The session's side of launches.
#include "runtime/launches.h"

namespace karez::runtime {

void Launches::queue(LaunchRecord& record) {
  (last_ == nullptr ? first_ : last_->next) = &record;
  last_ = &record;
  ++record.loaded->queued;
  begin();
}

void Launches::go_on(Loaded& loaded) {
  if (loaded.session_ports.ender.ready()) end(loaded);
  begin();
}

void Launches::begin() {
  while (first_ != nullptr && !in_flight_) {
    LaunchRecord& record = *first_;
    Loaded& loaded = *record.loaded;
    if (session_.refuses(record)) {
      drop_first();
      continue;
    }
    SessionPorts& ports = loaded.session_ports;
    if (!ports.starter.ready()) return;  // a source of the launch before has yet to return its token
    in_flight_ = true;
    loaded.ticket.store(record.ticket, std::memory_order_relaxed);
    loaded.launch.store(&record, std::memory_order_release);
    events_.look_at_clock();
    events_.launch(EventKind::launch_began, loaded.number, record.ticket);
    ports.starter.begin();
    ports.starter.complete([&](const Message& message) { protocol_.send_from_session(loaded, ports.start_mails, message); });
  }
}

void Launches::end(Loaded& loaded) {
  SessionPorts& ports = loaded.session_ports;
  ports.ender.begin();
  events_.look_at_clock();
  events_.launch(EventKind::launch_ended, loaded.number, first_->ticket);
  ports.ender.complete([&](const Message& message) { protocol_.send_from_session(loaded, ports.done_mails, message); });
  loaded.launch.store(nullptr, std::memory_order_relaxed);
  drop_first();
}

void Launches::drop_first() {
  LaunchRecord* record = first_;
  first_ = record->next;
  if (first_ == nullptr) last_ = nullptr;
  in_flight_ = false;
  Loaded& loaded = *record->loaded;
  session_.finished(*record);  // from here on the record may be gone
  unloading_.launch_over(loaded);
}

}  // namespace karez::runtime
