// The local form of a link: members of one process; the later of sender and receiver copies, straight from memory to
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "karez/comm/link.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

struct LocalChannel;

// The members of one communicator that live in this process, with all links among them: n x n directed channels. Links
// to members elsewhere are added to the endpoints by others. Also two members for a plain send / receive link of a
// register: then `depth` is its number of slots.
class LocalHub {
 public:
  explicit LocalHub(int members, int depth = 8);                         // all of them live here
  LocalHub(int members, std::vector<int> local_members, int depth = 8);  // these do, each named once
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int members() const { return members_; }
  const std::vector<int>& local_members() const { return local_members_; }
  Endpoint& endpoint(int member);   // of one that lives here
  std::int64_t bytes_sent() const;  // by all members; exact when nothing is on its way
  // Forgets everything posted, after a failure left a collective half done. No member may be in a call, and none in a
  // run.
  void reset();

 private:
  int members_;
  std::vector<int> local_members_;
  std::vector<std::unique_ptr<Notifier>> notifiers_;     // this and what follows by place in here_
  std::vector<std::unique_ptr<LocalChannel>> channels_;  // [from * here + to]; none from a member to itself
  std::vector<Endpoint> endpoints_;
};

}  // namespace karez::comm
