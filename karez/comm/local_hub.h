// Local hub: links between members of one process. The later of sender and receiver copies, directly from memory to
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "karez/comm/link.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

struct LocalChannel;

// The members of one communicator in this process, with all links among them: n x n directed channels. The owner adds
// links to members of other processes to the endpoints. A hub of two members is also a plain send / receive link of a
// register: then `depth` is its number of slots.
class LocalHub {
 public:
  explicit LocalHub(int members, int depth = 8);                         // all of them are local
  LocalHub(int members, std::vector<int> local_members, int depth = 8);  // these are local, each listed once
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int members() const { return members_; }
  const std::vector<int>& local_members() const { return local_members_; }
  Endpoint& endpoint(int member);   // a local member's
  std::int64_t bytes_sent() const;  // by all members; exact when nothing is in transit
  // Discards everything posted, after a failure interrupted a collective. No member may be in a call or in a run.
  void reset();

 private:
  int members_;
  std::vector<int> local_members_;
  std::vector<std::unique_ptr<Notifier>> notifiers_;     // this and the following by index in local_members_
  std::vector<std::unique_ptr<LocalChannel>> channels_;  // [from * local members + to]; null from a member to itself
  std::vector<Endpoint> endpoints_;
};

}  // namespace karez::comm
