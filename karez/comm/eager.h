// The eager protocol: messages of one link direction that are sent before their receive is posted, as both ends count
// them.
//
// The first message of a link waits for a credit, which shows that the peer has opened the link. After that a message
// is sent without its credit if fewer than `messages` messages lack their credits and, together with it, have at most
// `bytes` bytes. So a receiver need not announce a posted receive that must fall within this window: it announces
// several at once, when the next one would not fit.
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

// The sender's count of messages that it began to send without a credit.
class EagerSender {
 public:
  bool may_send(std::int64_t bytes, std::int64_t message, std::int64_t credited) const {
    return credited > 0 && message - credited < EagerWindow::messages && held_ + bytes <= EagerWindow::bytes;
  }
  void sent_without_credit(std::int64_t message, std::int64_t bytes) {
    held_ += sizes_[EagerWindow::slot(message)] = bytes;
  }
  void credited(std::int64_t message) { held_ -= sizes_[EagerWindow::slot(message)]; }

 private:
  std::array<std::int64_t, EagerWindow::messages> sizes_{};
  std::int64_t held_ = 0;
};

// The receiver's count of posted receives that it has not announced.
class DeferredCredits {
 public:
  // A receive is posted. True if it must be announced to the sender, together with all receives before it.
  bool posted(bool first, std::int64_t bytes) {
    ++messages_;
    bytes_ += bytes;
    if (!first && messages_ <= EagerWindow::messages && bytes_ <= EagerWindow::bytes) return false;
    messages_ = bytes_ = 0;
    return true;
  }

 private:
  std::int64_t messages_ = 0, bytes_ = 0;
};

// The receiver's memory for messages that arrived before their receive: first in, first out.
class EagerBuffer {
 public:
  struct Message {
    std::byte* at = nullptr;
    std::int64_t bytes = 0;
  };
  bool fits(std::int64_t bytes) const { return count_ < EagerWindow::messages && held_ + bytes <= EagerWindow::bytes; }
  // Contiguous memory for the next message. The buffer has twice the window's size, so that a message that does not fit
  // at the end fits at the beginning.
  std::byte* push(std::int64_t bytes) {
    if (memory_ == nullptr) memory_.reset(new std::byte[2 * EagerWindow::bytes]);
    if (tail_ + bytes > 2 * EagerWindow::bytes) tail_ = 0;
    Message& here = messages_[EagerWindow::slot(first_ + count_++)] = {memory_.get() + tail_, bytes};
    tail_ += bytes;
    held_ += bytes;
    return here.at;
  }
  const Message& front() const { return messages_[EagerWindow::slot(first_)]; }
  void pop() {
    held_ -= front().bytes;
    ++first_;
    --count_;
  }
  void clear() { memory_.reset(); }

 private:
  std::unique_ptr<std::byte[]> memory_;  // allocated when first needed, uninitialised
  std::array<Message, EagerWindow::messages> messages_;
  std::int64_t first_ = 0, count_ = 0, held_ = 0, tail_ = 0;
};

}  // namespace karez::comm
