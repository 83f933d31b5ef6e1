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
#include "karez/runtime/namespace.h"
#include "karez/runtime/watch.h"

namespace karez::runtime {

class Heart {
 public:
  struct Tell {
    // This rank's state; with `waits` also what it is inside of and waits for, which takes longer to find out. It takes
    // `most` seconds at most.
    std::function<RankState(bool waits, double most)> state;
    std::function<void(const WatchFinding&)> found;
  };
  // Both are called on its own thread.
  Heart(comm::Peers& peers, WatchLimits limits, Tell tell);
  ~Heart();  // says bye, and waits for the others' answers, though not for long
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

 private:
  struct Beat;
  struct Line;

  void run();
  void end();
  void tick();
  void look();
  RankState own_state(double now, bool ask);
  bool send(Line& line, const Beat& beat);
  void take(int rank, Line& line);

  comm::Peers& peers_;
  WatchLimits limits_;
  Tell tell_;
  Watch watch_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank; to rank 0, at rank 0 to all others
  std::uint64_t moved_ = 0;
  double moved_at_ = 0;
  std::mutex mutex_;
  std::condition_variable called_;
  bool stop_ = false, notified_ = false;
  std::unique_ptr<comm::LocalHub> hub_;  // goes before what its links write to and ring
  std::thread thread_;                   // last: it uses the others
};

}  // namespace karez::runtime
