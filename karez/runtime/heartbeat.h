// The heart of a rank: a thread that beats to rank 0, and from rank 0 to all, on links of its own beside all data; and
// watches whose heart does not.
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
    // This rank's state; with `waits` also what it is inside of and waits for, which takes longer to find out. It takes
    // `most` seconds at most.
    std::function<RankState(bool waits, double most)> state;
    std::function<void(const HangDiagnosis&)> found;
  };
  // Both are called on its own thread.
  Heartbeat(comm::Peers& peers, HangTimeouts limits, Callbacks callbacks);
  ~Heartbeat();  // says bye, and waits for the others' answers, though not for long
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
  std::unique_ptr<comm::LocalHub> hub_;  // goes before what its links write to and ring
  std::thread thread_;                   // last: it uses the others
};

}  // namespace karez::runtime
