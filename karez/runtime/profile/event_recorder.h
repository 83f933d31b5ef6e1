// Records the events of a session's workers while a profile is on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct RecorderOptions {
  std::int64_t launches = 0;         // ends after this many launches; 0: when it is stopped
  std::int64_t skip = 0;             // the launches before the first recorded one
  std::size_t max_events = 1 << 22;  // of all workers; later events are lost
  // Called once: by the recorder's thread when the last of `launches` has ended, or before that by the end of the
  // session.
  std::function<void()> on_end = {};
};

// The kinds of events that the report of a profile needs.
constexpr EventKinds recorded_kinds = without({EventKind::acted, EventKind::handed, EventKind::posted});

struct RecordedLaunch {
  std::uint64_t ticket = 0;
  std::int32_t plan = -1;
  std::int64_t made = 0;  // when the program made it
  bool operator==(const RecordedLaunch&) const = default;
};

// What a recorder has recorded. Times are in ns since the session was created.
struct Recording {
  std::vector<RecordedLaunch> launches;                       // in the order in which they were made
  std::map<std::int32_t, std::shared_ptr<const Plan>> plans;  // by number
  // By worker: the events since the first of the launches was made, also those of other launches, without messages that
  // the worker sends and acts without work. `overwritten`: the number of events that were lost.
  std::vector<EventLog> workers;
};

// A thread that reads the rings of the workers before their entries are overwritten. It reads more often if there are
// more events.
class EventRecorder {
 public:
  // `read` returns the `recorded_kinds` of events of the workers since its last call, in ticks. `capacity`: of each
  // ring. `on_end` is called when the recorder has ended by itself, before that of the options.
  EventRecorder(RecorderOptions options, std::function<std::vector<EventLog>()> read, int capacity,
                std::function<void()> on_end);
  ~EventRecorder();  // calls `end`
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void start();  // starts the thread
  void add_plan(std::int32_t number, const Plan& plan);
  // A launch will begin. Must be called before it can begin.
  void add_launch(const RecordedLaunch& launch);
  void drain();       // reads the events until now
  void end();         // reads the events until now, unless the recorder has ended by itself, and ends the thread
  void report_end();  // calls `on_end` of the options, if it was not called
  bool ended() const;
  // Times are in ticks.
  Recording recording() const;

 private:
  std::size_t read_events();  // returns the largest number of events of a worker
  void run();

  const RecorderOptions options_;
  const std::function<std::vector<EventLog>()> read_;
  const std::size_t capacity_;
  const std::function<void()> on_end_;
  std::mutex read_mutex_;     // held while events are read and added
  mutable std::mutex mutex_;  // guards the members below; locked after read_mutex_
  std::condition_variable wake_;
  Recording recording_;                                  // without events
  std::vector<std::vector<std::vector<Event>>> events_;  // by worker and read
  std::int64_t skip_;
  std::size_t kept_ = 0;             // the number of events
  std::set<std::uint32_t> running_;  // tickets of the recorded launches that have not ended
  bool complete_ = false;            // all launches have ended
  bool stop_ = false;
  bool end_reported_ = false;
  std::mutex end_mutex_;  // held by `end`
  std::thread thread_;    // last, because it uses the other members
};

}  // namespace karez::runtime
