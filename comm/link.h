// Links: the one seam between collectives and whatever carries bytes. One end sends from its memory into the memory the other end posted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace karez::comm {

// Called from the peer's thread when something this member waits for has happened. It may post a message; it must not work or block.
using Wake = std::function<void()>;

// Rings once for any number of happenings between two answers, so that a member gets one message where three peers wrote to it.
class Bell {
 public:
  void set(Wake wake) { wake_ = std::move(wake); }  // before the first message
  void ring() {
    if (!rung_.exchange(true, std::memory_order_acq_rel) && wake_) wake_();
  }
  void answer() { rung_.exchange(false, std::memory_order_acq_rel); }  // before looking at the links

 private:
  Wake wake_;
  std::atomic<bool> rung_{false};
};

// One end of a link to one peer. Messages keep their order: the k-th send meets the peer's k-th posted receive, and both name the same
// number of bytes. A posted receive is the credit: a send without one waits, and its memory must stay as it is until `sent` counts it.
// Each end is used by one thread at a time. Nothing allocates or blocks after construction.
class Link {
 public:
  virtual ~Link() = default;
  virtual void post_receive(std::byte* into, std::int64_t bytes) = 0;
  virtual void send(const std::byte* from, std::int64_t bytes) = 0;
  virtual std::int64_t received() const = 0;    // messages that have arrived here since the link was made
  virtual std::int64_t sent() const = 0;        // messages of this end that have left; their memory is free again
  virtual std::int64_t bytes_sent() const = 0;  // by this end, counted where they are copied
  virtual int depth() const = 0;                // posted receives (and as many sends) that may wait at once; more is an error
};

// One member's end of a communicator: a link to each peer and the bell they ring.
class Endpoint {
 public:
  Endpoint(int member, int members, Bell& bell) : member_(member), bell_(&bell), links_(static_cast<std::size_t>(members)) {}

  int member() const { return member_; }
  int members() const { return static_cast<int>(links_.size()); }
  Link& link(int peer) const { return *links_[static_cast<std::size_t>(peer)]; }
  void connect(int peer, std::unique_ptr<Link> link) { links_[static_cast<std::size_t>(peer)] = std::move(link); }
  void set_wake(Wake wake) { bell_->set(std::move(wake)); }  // before the first message
  Bell& bell() const { return *bell_; }
  std::int64_t bytes_sent() const {
    std::int64_t sum = 0;
    for (const auto& link : links_) sum += link ? link->bytes_sent() : 0;
    return sum;
  }

 private:
  int member_;
  Bell* bell_;
  std::vector<std::unique_ptr<Link>> links_;  // none to itself
};

}  // namespace karez::comm
