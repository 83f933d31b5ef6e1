// For tests and benchmarks: a real rank 0 and fake other ranks. The messages of the fake ranks are written to rank 0's
// receive buffers; the messages of rank 0 are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/control/agreement.h"
#include "karez/control/namespace.h"

namespace karez::control {

class FakeRanks {
 public:
  explicit FakeRanks(int ranks);  // including rank 0
  ~FakeRanks();

  Agreement& rank0() { return *agreement_; }
  // Call from one thread at a time. Waits while rank 0's receive buffers for the rank are full.
  void send(int rank, const ControlMessage& message);
  // All ranks begin a launch and end it, one after the other; returns when rank 0 has notified all ranks of the end.
  void launch(const std::string& what, std::uint64_t hash);

  struct Counts {
    std::int64_t polls = 0;     // the number of times that rank 0 polled a link
    std::int64_t messages = 0;  // sent by rank 0
    std::int64_t bytes = 0;     // bytes in both directions
  };
  Counts counts() const;  // the sums over all links since their creation

 private:
  class FakeLink;
  const int ranks_;
  std::vector<FakeLink*> links_;  // by rank; owned by the agreement
  std::atomic<std::uint64_t> ended_{0};
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace karez::control
