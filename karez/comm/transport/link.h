// Links: the interface between collectives and transports. One end sends from its memory into memory that the other end
// posted. A link to another process can fail; it then reports the failure, and every collective over it ends with the
// peer's name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// Called by the peer's thread when an event for which this member waits has occurred. A wake may post a message; it
// must not compute or block.
using Wake = std::function<void()>;

// Notifies once for any number of events between two acknowledgements, so a member gets one message when three peers
// have written to it.
class Notifier {
 public:
  void set_wake(Wake wake) { wake_ = std::move(wake); }  // call before the first message
  void notify() {
    if (!notified_.exchange(true, std::memory_order_acq_rel) && wake_) wake_();
  }
  // Call before reading the counters of the links.
  void acknowledge() { notified_.exchange(false, std::memory_order_acq_rel); }

  // Reports that a link has failed. Only the first error is kept, because later failures are often its consequence.
  void notify_failure(const Error& error) {
    if (!failure_claimed_.exchange(true, std::memory_order_acq_rel)) {
      failure_ = std::make_unique<Error>(error);
      failed_.store(true, std::memory_order_release);
    }
    notify();
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  const Error* failure() const { return failed() ? failure_.get() : nullptr; }

 private:
  Wake wake_;
  std::atomic<bool> notified_{false}, failure_claimed_{false}, failed_{false};
  std::unique_ptr<Error> failure_;
};

// One end of a link to one peer. Messages keep their order: the k-th send matches the peer's k-th posted receive, and
// both give the same number of bytes. A posted receive gives the sender a credit. A send without a credit waits, unless
// the message is short and the transport can buffer it at the other end; the message's memory must not change until
// `sent` counts it. Each end is used by one thread at a time. No function allocates memory or blocks. After a failure
// no data moves any more: `failure` remains set, posted memory is not accessed again, the notifier has been notified,
// and post_receive and send throw the error. Messages that arrived before the failure count, even if their receives are
// posted after it.
class Link {
 public:
  virtual ~Link() = default;
  virtual void post_receive(std::byte* into, std::int64_t bytes) = 0;
  virtual void send(const std::byte* from, std::int64_t bytes) = 0;
  virtual std::int64_t received() const = 0;    // messages that have arrived at this end since the link was made
  virtual std::int64_t sent() const = 0;        // messages sent from this end, whose memory is free again
  virtual std::int64_t bytes_sent() const = 0;  // bytes sent from this end, counted when they are copied
  virtual int depth() const = 0;                // maximum number of pending posted receives, and also of pending sends
  // The error of this link, of kind peer and with the peer's name; null if the link has not failed.
  virtual const Error* failure() const { return nullptr; }

  // These are for a thread that polls instead of sleeping. Between set_busy_poll(true) and set_busy_poll(false) the
  // thread must call `poll` repeatedly; data that arrives in this time may wait for such a call, and wakes no thread. A
  // link within one process has nothing to poll.
  virtual void set_busy_poll(bool) {}
  virtual void poll() {}
};

// One member's end of a communicator: a link to each peer, and the notifier that they share.
class Endpoint {
 public:
  Endpoint(int member, int members, Notifier& notifier)
      : member_(member),
        notifier_(&notifier),
        links_(static_cast<std::size_t>(members)) {}

  int member() const { return member_; }
  int members() const { return static_cast<int>(links_.size()); }
  Link& link(int peer) const { return *links_[static_cast<std::size_t>(peer)]; }
  // Returns false for peers with which this member exchanges nothing.
  bool has_link(int peer) const { return links_[static_cast<std::size_t>(peer)] != nullptr; }
  // Sets the link to a peer and returns the previous link, if any.
  std::unique_ptr<Link> connect(int peer, std::unique_ptr<Link> link) {
    return std::exchange(links_[static_cast<std::size_t>(peer)], std::move(link));
  }
  void set_wake(Wake wake) { notifier_->set_wake(std::move(wake)); }  // call before the first message
  Notifier& notifier() const { return *notifier_; }
  // Throws the error of the link that failed first, if any link has failed.
  void check() const {
    if (const Error* failure = notifier_->failure()) throw Error(*failure);
  }
  void set_busy_poll(bool polling) const {
    for (const auto& link : links_)
      if (link) link->set_busy_poll(polling);
  }
  void poll() const {
    for (const auto& link : links_)
      if (link) link->poll();
  }
  std::int64_t bytes_sent() const {
    std::int64_t sum = 0;
    for (const auto& link : links_) sum += link ? link->bytes_sent() : 0;
    return sum;
  }

 private:
  int member_;
  Notifier* notifier_;
  std::vector<std::unique_ptr<Link>> links_;  // null for this member itself and for peers without a link
};

}  // namespace karez::comm
