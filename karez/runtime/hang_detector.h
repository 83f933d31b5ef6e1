// Who hangs: the verdict over ranks from their heartbeats and states. No thread, no clock, no socket: it is told of
// ticks and of what came.
//
// Five findings, in this order; each but the warning ends the world:
//
//   halted   a signal has stopped the rank's process for three seconds, as this host's kernel says, and another rank
//   waits gone     no heartbeat for peer_timeout, and its host's kernel acknowledges nothing either (the connection's
//   own timeout says so sooner as a rule) stopped  no heartbeat for peer_timeout, though its kernel answers, and
//   another rank waits: the process is stopped or cannot run inside   a rank that answers has been in one call of a
//   kernel or a source for call_timeout and nothing of it moved meanwhile, while another rank
//            waits; after peer_timeout that is a warning
//   circle   every rank answers, none is inside a call or may go on by itself, every one waits, and nothing has moved
//   anywhere for 2 peer_timeout
//
// What is no hang: a rank of whose silence nobody waits for the end; a rank that waits for nobody and is inside of
// nothing (its program computes); and whatever a watcher saw whose own tick was late: it may have been stopped with all
// the others, so it waits again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"

namespace karez::runtime {

struct HangTimeouts {
  double peer_timeout = 30;   // seconds
  double call_timeout = 300;  // that one call may take while others wait
  double halt_timeout = 3;    // that a signal may stop a rank for while others wait
  double tick() const;        // how often a heart beats, and a watcher looks
};

struct HangDiagnosis {
  enum class Kind { slow_call, halted, unreachable, unresponsive, stuck_call, deadlock };
  Kind kind = Kind::slow_call;
  int rank = -1;  // whose fault it is; -1: nobody's alone
  std::string text;
};

class HangDetector {
 public:
  // Watches all ranks as rank 0 does, or rank 0 alone as the others do; itself in any case. `name`: how people call a
  // rank.
  HangDetector(int ranks, int own_rank, HangTimeouts limits, std::function<std::string(int rank)> name);

  void on_heartbeat(int rank, RankState state);  // it came since the last tick
  void on_disconnect(int rank);                  // it said bye: its silence is no wonder
  void set_halted(
      int rank,
      bool now);  // before each tick, of ranks whose processes this one can see: whether a signal has stopped it
  // `answers(rank)`: whether its kernel has acknowledged anything of late.
  std::optional<HangDiagnosis> tick(double now, const std::function<bool(int rank)>& answers);

 private:
  struct Observation {
    bool watched = false, received = false, halted = false;
    double silent_seconds = 0, idle_seconds = 0,
           halted_seconds = 0;  // seconds that were watched without a beat, without a move, and halted
    RankState state;
    bool warned = false;  // of one that takes long
  };

  void count(double seconds);
  bool is_silent(int rank) const {
    return observations_[static_cast<std::size_t>(rank)].silent_seconds > limits_.peer_timeout;
  }
  bool another_rank_waits(int except) const;
  std::optional<HangDiagnosis> find_halted() const;
  std::optional<HangDiagnosis> find_silent(const std::function<bool(int)>& answers) const;
  std::optional<HangDiagnosis> find_stuck_call();
  std::optional<HangDiagnosis> find_deadlock() const;
  std::string waits_text(int except) const;
  std::string wait_text(const RankWait& wait) const;

  HangTimeouts limits_;
  int own_rank_;
  std::function<std::string(int)> name_;
  std::vector<Observation> observations_;  // by rank
  std::optional<double> last_;
};

}  // namespace karez::runtime
