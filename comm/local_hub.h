// The local form of a link: members of one process; the later of sender and receiver copies, straight from memory to memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/link.h"

namespace karez::comm {

struct LocalChannel;

// All links among the members of one communicator that live in this process: n x n directed channels. Also two members for a plain
// send / receive link of a register: then `depth` is its number of slots.
class LocalHub {
 public:
  explicit LocalHub(int members, int depth = 8);
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int members() const { return static_cast<int>(endpoints_.size()); }
  Endpoint& endpoint(int member);
  std::int64_t bytes_sent() const;  // by all members; exact when nothing is on its way
  // Forgets everything posted, after a failure left a collective half done. No member may be in a call, and none in a run.
  void reset();

 private:
  std::vector<std::unique_ptr<Bell>> bells_;
  std::vector<std::unique_ptr<LocalChannel>> channels_;  // [from * members + to]; none from a member to itself
  std::vector<Endpoint> endpoints_;
};

}  // namespace karez::comm
