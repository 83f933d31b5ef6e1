// A worker's mailbox: many post, one takes; nothing allocates, because every mail that can be on its way exists since
// the plan was loaded.
#pragma once

#include <atomic>
#include <cstdint>

#include "karez/plan/ports.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct WorkerPlan;

// What a worker may be told. A mail belongs to its sender and may be posted again once its receiver took it.
struct Mail {
  enum class Kind : std::uint8_t {
    message,         // of the protocol, to an actor of `part` or to the session
    finished,        // an asynchronous kernel of the actor at `place` is done
    arrival,         // something a collective of sequence `place` waits for has happened
    abandon,         // a collective of this plan broke: the others will not come
    resume,          // collectives of this part that were held may begin
    invalidate,      // payload: a InvalidatedOp, which failed on another rank
    abort_launches,  // payload: a Breaking
    launch,          // payload: a LaunchRecord to be queued
    unlock,          // payload: a client's LaunchRecord whose turn at variables is over
    attach,          // a part to be served from now on
    set_affinity,    // payload: a CpuSet, where to run
    query,           // payload: an Inquiry, who waits for what
    unload,          // payload: a Loaded that no launch will name any more
    detach,          // a part to be served no longer
    detached,        // payload: the Loaded a part of which is served no longer
    stop,
  };
  Mail* next = nullptr;
  Kind kind = Kind::message;
  int local_index = 0;
  WorkerPlan* worker_plan = nullptr;
  void* payload = nullptr;
  Message message;
  std::uint64_t ticket = 0;  // of the launch that a message belongs to
};

// A stack that the reader empties at once and turns round: one exchange to post, one to take all. An idle reader leaves
// a mark in the place of the first mail, so only those who find the mark pay for waking it.
class Mailbox {
 public:
  void post(Mail* mail) {
    Mail* first = first_.load(std::memory_order_relaxed);
    do {
      mail->next = first == &sleeping_ ? nullptr : first;
    } while (!first_.compare_exchange_weak(first, mail, std::memory_order_release, std::memory_order_relaxed));
    if (first == &sleeping_) {
      wakes_.fetch_add(1, std::memory_order_release);
      wakes_.notify_one();
    }
  }
  bool empty() const { return first_.load(std::memory_order_relaxed) == nullptr; }
  // All mails, oldest first; those of one sender in the order it posted them.
  Mail* take_all() {
    Mail* mail = first_.exchange(nullptr, std::memory_order_acquire);
    Mail* oldest = nullptr;
    while (mail != nullptr) {
      Mail* next = mail->next;
      mail->next = oldest;
      oldest = mail;
      mail = next;
    }
    return oldest;
  }
  // Sleeps until there is mail. By the reader alone.
  void sleep() {
    std::uint32_t seen = wakes_.load(std::memory_order_acquire);
    Mail* none = nullptr;
    if (!first_.compare_exchange_strong(none, &sleeping_, std::memory_order_relaxed)) return;
    while (first_.load(std::memory_order_relaxed) == &sleeping_) {
      wakes_.wait(seen, std::memory_order_acquire);
      seen = wakes_.load(std::memory_order_acquire);
    }
  }

 private:
  alignas(64) std::atomic<Mail*> first_{nullptr};
  alignas(64) std::atomic<std::uint32_t> wakes_{0};
  Mail sleeping_;  // the mark; never read
};

}  // namespace karez::runtime
