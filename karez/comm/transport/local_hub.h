// Local hub: links between members in one process. The sender or the receiver, whichever comes later, copies the
// message directly from memory to memory.
#pragma once

#include <memory>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

struct LocalChannel;

// The members of one communicator in this process, with all links among them: n x n directed channels. The owner adds
// links to members in other processes to the endpoints. `depth` is Link::depth() of the links in this process.
class LocalHub {
 public:
  // Only `local_members`, each listed once, are in this process.
  LocalHub(int members, std::vector<int> local_members, int depth = 8);
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int members() const { return members_; }
  const std::vector<int>& local_members() const { return local_members_; }
  Endpoint& endpoint(int member);  // of a local member

 private:
  int members_;
  std::vector<int> local_members_;
  std::vector<std::unique_ptr<Notifier>> notifiers_;     // this and the following lists: in the order of local_members_
  std::vector<std::unique_ptr<LocalChannel>> channels_;  // [from * local members + to]; null from a member to itself
  std::vector<Endpoint> endpoints_;
};

}  // namespace karez::comm
