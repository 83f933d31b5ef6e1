// For tests and benchmarks: rank 0 with its own code, and all other ranks as memory: what they say is put where rank 0
// receives, and what it says is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/runtime/agreement.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class FakeRanks {
 public:
  explicit FakeRanks(int ranks);  // rank 0 among them
  ~FakeRanks();

  Agreement& rank0() { return *agreement_; }
  void send(int rank,
            const ControlMessage& note);  // from any one thread; waits while rank 0 has taken nothing of the rank
  // All ranks begin a launch and end it, one after the other; returns when rank 0 has told all that it ended.
  void launch(const std::string& what, std::uint64_t hash);

  struct Counts {
    std::int64_t polls = 0;     // how often rank 0 looked whether something had come
    std::int64_t messages = 0;  // that rank 0 sent
    std::int64_t bytes = 0;     // in both directions
  };
  Counts counts() const;  // of all links together, since they were made

 private:
  class FakeLink;
  const int ranks_;
  std::vector<FakeLink*> links_;  // by rank; the agreement's
  std::atomic<std::uint64_t> ended_{0};
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace karez::runtime
