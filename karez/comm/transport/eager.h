// Eager protocol: how both ends of a link count the messages that are sent before their receives are posted.
//
// The first message of a link waits for a credit, which shows that the peer has opened the link. A later message is
// sent without its credit if fewer than `messages` sent messages lack their credits, and if their bytes and those of
// the new message are at most `bytes` in total. So a receiver need not announce a posted receive that falls within this
// window: it announces several together when the next one would not fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "karez/comm/namespace.h"

namespace karez::comm {

struct EagerWindow {
  static constexpr std::int64_t bytes = 64 << 10;
  static constexpr std::int64_t messages = 64;
  static constexpr std::size_t slot(std::int64_t message) { return static_cast<std::size_t>(message % messages); }
};

// The sender's account of messages that it has begun to send and whose credits have not arrived.
class EagerSender {
 public:
  bool may_send(std::int64_t bytes, std::int64_t message, std::int64_t credit_count) const {
    return credit_count > 0 && message - credit_count < EagerWindow::messages &&
           pending_bytes_ + bytes <= EagerWindow::bytes;
  }
  void sent_without_credit(std::int64_t message, std::int64_t bytes) {
    pending_bytes_ += sizes_[EagerWindow::slot(message)] = bytes;
  }
  void credit_arrived(std::int64_t message) { pending_bytes_ -= sizes_[EagerWindow::slot(message)]; }

 private:
  std::array<std::int64_t, EagerWindow::messages> sizes_{};
  std::int64_t pending_bytes_ = 0;
};

// The receiver's account of posted receives that it has not announced.
class DeferredCredits {
 public:
  // Adds a posted receive. Returns true if it must be announced to the sender, together with all receives before it.
  bool add(bool first, std::int64_t bytes) {
    ++messages_;
    bytes_ += bytes;
    if (!first && messages_ <= EagerWindow::messages && bytes_ <= EagerWindow::bytes) return false;
    messages_ = bytes_ = 0;
    return true;
  }

 private:
  std::int64_t messages_ = 0, bytes_ = 0;
};

// The receiver's queue of messages that arrived before their receives.
class EagerBuffer {
 public:
  struct Message {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  bool fits(std::int64_t bytes) const { return count_ < EagerWindow::messages && bytes_ + bytes <= EagerWindow::bytes; }
  // Returns contiguous memory for the next message. The buffer has twice the window's size, so that a message that does
  // not fit at the end fits at the beginning.
  std::byte* push(std::int64_t bytes) {
    if (memory_ == nullptr) memory_.reset(new std::byte[2 * EagerWindow::bytes]);
    if (tail_ + bytes > 2 * EagerWindow::bytes) tail_ = 0;
    Message& message = messages_[EagerWindow::slot(first_ + count_++)] = {memory_.get() + tail_, bytes};
    tail_ += bytes;
    bytes_ += bytes;
    return message.data;
  }
  const Message& front() const { return messages_[EagerWindow::slot(first_)]; }
  void pop() {
    bytes_ -= front().bytes;
    ++first_;
    --count_;
  }
  void clear() { memory_.reset(); }

 private:
  std::unique_ptr<std::byte[]> memory_;  // allocated when first needed
  std::array<Message, EagerWindow::messages> messages_;
  std::int64_t first_ = 0, count_ = 0, bytes_ = 0, tail_ = 0;
};

}  // namespace karez::comm
