// The options of a session.
#pragma once

#include <functional>
#include <memory>

#include "karez/plan/plan.h"
#include "karez/runtime/control.h"
#include "karez/runtime/delays.h"
#include "karez/runtime/namespace.h"

namespace karez::comm {
class Endpoint;
class Peers;
}  // namespace karez::comm

namespace karez::runtime {

class IdleClock;
struct FlightRecord;

#ifdef KAREZ_POISON
inline constexpr bool poison_by_default = true;
#else
inline constexpr bool poison_by_default = false;
#endif

struct SessionOptions {
  // The maximum number of worker threads; 0: the number of usable cores, which is never exceeded. Workers are started
  // when a plan needs them.
  int workers = 0;
  bool poison = poison_by_default;  // fill dead memory with a pattern that no correct plan reads (actor/poison.h)
  // How long an idle worker polls before it sleeps. It is set to 0 if kernels have teams or workers outnumber cores.
  int spin_microseconds = 20;
  int events = 4096;       // entries in each worker's event ring, rounded up to a power of two; 55 bytes each
  int in_flight = 4;       // maximum number of concurrent launches; unread results do not count
  bool check_nan = false;  // check the results of every call: see check_finite.h

  // Called about twenty times a second by a thread that waits for launches. An exception from it ends the wait, but not
  // the launches.
  std::function<void()> while_waiting = {};
  // Adds the wait for a data set, if the program waits for one, and the progress of data sets to the state of this
  // rank.
  std::function<void(RankState&)> add_data_state = {};
  std::shared_ptr<IdleClock> idle_clock = {};  // the clock that the session keeps; null: one of its own
  bool pin = false;               // bind each worker and its teams to cores, one for each thread of its largest team
  comm::Peers* peers = nullptr;   // the other ranks, if any; used by this session only, and must outlive it
  MakeControl make_control = {};  // creates the control; required with `peers`
  // Writes the flight record of the first failure; an exception from it is logged.
  std::function<void(const FlightRecord&)> write_flight_record = {};
  // For tests.
  Delays delays = {};
  bool order_arena_plans = true;  // order launches of plans that share an arena; otherwise they overwrite each other
  std::function<void(Plan&)> on_plan = {};  // may change a plan before its links are compared between ranks
  std::function<void(comm::Endpoint&)> on_endpoint = {};  // may replace links of each endpoint of a loaded plan
};

}  // namespace karez::runtime
