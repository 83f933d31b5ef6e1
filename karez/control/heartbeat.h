// The heartbeat of a rank: a thread with its own links. It sends heartbeats to rank 0, or on rank 0 to all other ranks,
// and passes the heartbeats that it receives to a hang detector.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "karez/comm/rendezvous/peers.h"
#include "karez/comm/transport/local_hub.h"
#include "karez/control/hang_detector.h"
#include "karez/control/namespace.h"

namespace karez::control {

class Heartbeat {
 public:
  struct Callbacks {
    // Returns this rank's state. If `waits` is true, the state includes the current call and the waits; finding them
    // takes at most `max_seconds`.
    std::function<RankState(bool waits, double max_seconds)> state;
    std::function<void(const HangDiagnosis&)> on_diagnosis;
  };
  // Both callbacks are called on the heartbeat's own thread.
  Heartbeat(comm::Peers& peers, HangTimeouts timeouts, Callbacks callbacks);
  ~Heartbeat();  // sends goodbye, and waits up to a second for the others' goodbyes
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  struct Frame;
  struct PeerLink;

  void run();
  void end();
  void tick();
  void poll();
  RankState own_state(double now, bool with_waits);
  bool send(PeerLink& peer, const Frame& frame);
  void take(int rank, PeerLink& peer);

  comm::Peers& peers_;
  HangTimeouts timeouts_;
  Callbacks callbacks_;
  HangDetector hang_detector_;
  std::vector<std::unique_ptr<PeerLink>> links_;  // by rank: to rank 0, or on rank 0 to all other ranks
  std::uint64_t progress_ = 0;
  double progress_at_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, notified_ = false;
  std::unique_ptr<comm::LocalHub> hub_;  // destroyed before the members that its links use
  std::thread thread_;                   // last, because the thread uses the other members
};

}  // namespace karez::control
