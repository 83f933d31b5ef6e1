// The heartbeat of a rank: a thread that sends heartbeats to rank 0, and from rank 0 to all ranks, on its own links,
// and detects ranks that send none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "karez/comm/local_hub.h"
#include "karez/comm/peers.h"
#include "karez/runtime/hang_detector.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Heartbeat {
 public:
  struct Callbacks {
    // This rank's state; with `waits` also its current call and its waits, which take longer to find out. Takes at most
    // `most` seconds.
    std::function<RankState(bool waits, double most)> state;
    std::function<void(const HangDiagnosis&)> found;
  };
  // Both callbacks are called on the heartbeat's own thread.
  Heartbeat(comm::Peers& peers, HangTimeouts limits, Callbacks callbacks);
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
  RankState own_state(double now, bool ask);
  bool send(PeerLink& peer, const Frame& beat);
  void take(int rank, PeerLink& peer);

  comm::Peers& peers_;
  HangTimeouts limits_;
  Callbacks callbacks_;
  HangDetector hang_detector_;
  std::vector<std::unique_ptr<PeerLink>> links_;  // by rank; to rank 0, at rank 0 to all others
  std::uint64_t progress_ = 0;
  double progress_at_ = 0;
  std::mutex mutex_;
  std::condition_variable called_;
  bool stop_ = false, notified_ = false;
  std::unique_ptr<comm::LocalHub> hub_;  // destroyed before the members that its links use
  std::thread thread_;                   // last: it uses the other members
};

}  // namespace karez::runtime
