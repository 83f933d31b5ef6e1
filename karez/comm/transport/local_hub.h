// Local hub: links between members of one process. Whichever of sender and receiver comes later copies the message,
// directly from memory to memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

struct LocalChannel;

// The members of one communicator in this process, with all links among them: n x n directed channels. The owner adds
// links to members of other processes to the endpoints. A hub of two members is also the send / receive link of a
// register; `depth` is then the register's number of slots.
class LocalHub {
 public:
  explicit LocalHub(int members, int depth = 8);  // all members are local
  // Only `local_members`, each listed once, are in this process.
  LocalHub(int members, std::vector<int> local_members, int depth = 8);
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int members() const { return members_; }
  const std::vector<int>& local_members() const { return local_members_; }
  Endpoint& endpoint(int member);   // of a local member
  std::int64_t bytes_sent() const;  // by all members; exact when no message is in transit
  // Discards all posted messages after a failure has interrupted a collective. No member may be in a call or in a run.
  void reset();

 private:
  int members_;
  std::vector<int> local_members_;
  std::vector<std::unique_ptr<Notifier>> notifiers_;     // this and the following lists are ordered as local_members_
  std::vector<std::unique_ptr<LocalChannel>> channels_;  // [from * local members + to]; null from a member to itself
  std::vector<Endpoint> endpoints_;
};

}  // namespace karez::comm
