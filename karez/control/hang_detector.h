// The hang detector finds ranks that hang, from their heartbeats and states. It has no thread, clock or socket: its
// caller reports ticks and received heartbeats.
//
// These are the diagnoses, in the order of the checks; each except slow_call ends the world:
//
//   halted        a signal has stopped the rank's process for halt_timeout, according to this host's kernel, and
//                 another rank waits
//   unreachable   no heartbeat for peer_timeout, and the rank's host acknowledges nothing either (the connection's own
//                 timeout usually reports this sooner)
//   unresponsive  no heartbeat for peer_timeout, although the rank's host answers, and another rank waits: the process
//                 is stopped or cannot run
//   stuck_call    a rank that answers has been in one call of a kernel or a source for call_timeout without progress,
//                 while another rank waits; after peer_timeout this is a warning, slow_call. The same holds for a rank
//                 whose program waits for a data set, one stage of which has been running for so long
//   deadlock      every rank sends heartbeats and waits, no rank is in a call or can progress by itself, and no rank
//                 has made progress for 2 * peer_timeout
//
// A rank that waits for a data set does not wait for another rank, and is no part of a deadlock.
//
// The detector does not report a rank without heartbeats for which no other rank waits, nor a rank that waits for no
// other rank and is in no call (its program computes). If the detector's own tick is late, this process may have been
// stopped together with the others, so the detector reports nothing and counts all times from zero again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "karez/control/namespace.h"
#include "karez/runtime/rank_state.h"

namespace karez::control {

struct HangTimeouts {
  double peer_timeout = 30;   // seconds
  double call_timeout = 300;  // seconds that one call may take while others wait
  double halt_timeout = 3;    // seconds that a rank may be stopped by a signal while others wait
  double tick() const;        // seconds between heartbeats, and between checks
};

struct HangDiagnosis {
  enum class Kind { slow_call, halted, unreachable, unresponsive, stuck_call, deadlock };
  Kind kind = Kind::slow_call;
  int rank = -1;  // the rank at fault; -1: no single rank
  std::string text;
};

class HangDetector {
 public:
  // On rank 0, observes all ranks; on other ranks, only rank 0 and itself. `name`: a rank's name in messages.
  HangDetector(int ranks, int own_rank, HangTimeouts timeouts, std::function<std::string(int rank)> name);

  void on_heartbeat(int rank, RankState state);  // received since the last tick
  void on_disconnect(int rank);                  // the rank sent goodbye, so no heartbeats are expected

  // Call before each tick for ranks whose processes this process can see. `halted`: a signal has stopped the process.
  void set_halted(int rank, bool halted);
  // `host_answers(rank)`: whether the rank's host has acknowledged anything recently.
  std::optional<HangDiagnosis> tick(double now, const std::function<bool(int rank)>& host_answers);

 private:
  struct Observation {
    bool watched = false, has_heartbeat = false, halted = false;
    // The seconds that the detector has observed without a heartbeat, without progress, and in the halted state.
    double seconds_without_heartbeat = 0, idle_seconds = 0, halted_seconds = 0;
    RankState state;
    bool warned = false;  // a slow call was reported
  };

  void add_time(double seconds);
  bool is_overdue(int rank) const {
    return observations_[static_cast<std::size_t>(rank)].seconds_without_heartbeat > timeouts_.peer_timeout;
  }
  bool another_rank_waits(int except) const;
  std::optional<HangDiagnosis> find_halted() const;
  std::optional<HangDiagnosis> find_overdue(const std::function<bool(int)>& host_answers) const;
  std::optional<HangDiagnosis> find_stuck_call();
  std::optional<HangDiagnosis> long_call(int rank, double seconds, const std::string& text);
  std::optional<HangDiagnosis> find_deadlock() const;
  std::string waits_text(int except) const;

  HangTimeouts timeouts_;
  int own_rank_;
  std::function<std::string(int)> name_;
  std::vector<Observation> observations_;  // by rank
  std::optional<double> last_tick_;
};

}  // namespace karez::control
