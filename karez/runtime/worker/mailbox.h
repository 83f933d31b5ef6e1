// A worker's mailbox, with many senders and one receiver. Posting allocates no memory, because the mails of the
// protocol are created when a plan is loaded.
#pragma once

#include <atomic>
#include <cstdint>

#include "karez/plan/ports.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct WorkerPlan;

// A message to a worker. A mail belongs to its sender and may be posted again once its receiver has taken it.
struct Mail {
  enum class Kind : std::uint8_t {
    message,         // a message of the protocol to an actor of `worker_plan` or to the session
    finished,        // the asynchronous kernel or slow read of the actor at `local_index` is done
    arrival,         // an event occurred on the links of the sequence at `local_index`
    abandon,         // a collective of the plan failed, so its members no longer wait for each other
    resume,          // held collectives of this worker plan may begin
    invalidate,      // payload: an InvalidatedOp, whose launch failed on some rank
    abort_launches,  // payload: a LaunchAbort
    launch,          // payload: a LaunchRecord to queue
    unlock,          // payload: the LaunchRecord of a released variable lock
    attach,          // the worker must serve `worker_plan` from now on
    set_affinity,    // payload: a CpuSet, the cores to run on
    query,           // payload: a WorkerQuery
    unload,          // payload: a LoadedPlan to unload; it gets no further launches
    detach,          // the worker must stop serving `worker_plan`
    detached,        // payload: the LoadedPlan of a worker plan that was detached
    stop,
  };
  Mail* next = nullptr;
  Kind kind = Kind::message;
  int local_index = 0;
  WorkerPlan* worker_plan = nullptr;
  void* payload = nullptr;
  Message message;
  std::uint64_t ticket = 0;  // ticket of the message's launch
};

// A stack of mails. Posting a mail takes one atomic exchange; taking all mails also takes one, and then their order is
// reversed. A sleeping reader leaves a mark in place of the first mail, so only a sender that finds the mark has to
// wake it.
//
// Another thread may read the mail while the reader sleeps, one thread at a time (Worker::try_serve). That thread calls
// `post_silently`, `empty` and `take_all`, and at the end `restore_mark`.
class Mailbox {
 public:
  void post(Mail* mail) {
    if (push(mail)) wake();
  }
  // For a thread that reads the mail in place of the reader: does not wake the reader.
  void post_silently(Mail* mail) { push(mail); }
  void wake() {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_one();
  }
  bool empty() const {
    const Mail* first = first_.load(std::memory_order_relaxed);
    return first == nullptr || first == &sleeping_;
  }
  // Takes and returns all mails, oldest first. The mails of a sender are in the order in which it posted them.
  Mail* take_all() {
    if (empty()) return nullptr;  // the mark stays
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
  // Sleeps until there is mail, or `wake` has been called since `wakes()` returned this number. For the reader only. If
  // another thread may read the mail, the reader must get the number before that thread can begin.
  void sleep(std::uint32_t wakes) {
    if (restore_mark()) wakes_.wait(wakes, std::memory_order_acquire);
  }
  std::uint32_t wakes() const { return wakes_.load(std::memory_order_acquire); }
  // Puts the mark back, so that the next sender wakes the reader. Returns false if there is mail.
  bool restore_mark() {
    Mail* first = nullptr;
    return first_.compare_exchange_strong(first, &sleeping_, std::memory_order_relaxed) || first == &sleeping_;
  }

 private:
  // Returns whether the mail replaces the mark of a sleeping reader.
  bool push(Mail* mail) {
    Mail* first = first_.load(std::memory_order_relaxed);
    do {
      mail->next = first == &sleeping_ ? nullptr : first;
    } while (!first_.compare_exchange_weak(first, mail, std::memory_order_release, std::memory_order_relaxed));
    return first == &sleeping_;
  }

  alignas(64) std::atomic<Mail*> first_{nullptr};
  alignas(64) std::atomic<std::uint32_t> wakes_{0};
  Mail sleeping_;  // the mark of a sleeping reader; never read
};

}  // namespace karez::runtime
