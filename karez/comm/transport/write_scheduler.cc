// Implements the write scheduler: the queue of channels, the batch of frames, and the loop that writes batches.
#include "karez/comm/transport/write_scheduler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "karez/comm/transport/frame.h"

namespace karez::comm {
namespace {
constexpr int frames_per_batch = 64;
}  // namespace

// The frames that are being written, with their bytes, as parts for the wire.
struct WriteScheduler::Batch {
  struct Item {
    Channel* channel;
    std::int64_t data_bytes;
    bool is_data, ends_message;
  };
  std::array<std::array<std::byte, Frame::bytes>, frames_per_batch> headers;
  std::array<iovec, 2 * frames_per_batch> parts;
  std::array<Item, frames_per_batch> items;
  int item_count = 0, part_count = 0, parts_written = 0;

  bool is_written() const { return parts_written == part_count; }
  void clear() { item_count = part_count = parts_written = 0; }
  void add(const Frame& frame, const Item& item, const std::byte* data) {
    auto& header = headers[static_cast<std::size_t>(item_count)];
    encode(frame, header.data());
    items[static_cast<std::size_t>(item_count++)] = item;
    parts[static_cast<std::size_t>(part_count++)] = {header.data(), header.size()};
    if (frame.kind == Frame::Kind::data && frame.length > 0)
      parts[static_cast<std::size_t>(part_count++)] = {const_cast<std::byte*>(data), frame.length};
  }
  void advance(std::int64_t bytes) {
    while (bytes > 0) {
      iovec& part = parts[static_cast<std::size_t>(parts_written)];
      auto step = std::min(bytes, static_cast<std::int64_t>(part.iov_len));
      part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
      part.iov_len -= static_cast<std::size_t>(step);
      bytes -= step;
      if (part.iov_len == 0) ++parts_written;
    }
  }
};

WriteScheduler::WriteScheduler(ChannelTable& channels, Wire& wire, std::function<void()> on_deferred)
    : channels_(channels),
      wire_(wire),
      on_deferred_(std::move(on_deferred)),
      batch_(std::make_unique<Batch>()) {}

WriteScheduler::~WriteScheduler() = default;

void WriteScheduler::queue(Channel& c) {
  if (c.queued || !c.is_open()) return;
  c.queued = true;
  c.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &c;
  last_ = &c;
}

void WriteScheduler::queue_for_reader(Channel& c) {
  queue(c);
  if (!writing_ && !channels_.ended) writing_ = deferred_ = true;
}

bool WriteScheduler::write_now(std::unique_lock<std::mutex>& lock) {
  if (writing_ || channels_.ended) return true;
  writing_ = true;
  lock.unlock();
  return write(1, max_inline);
}

bool WriteScheduler::resume(int batches, std::int64_t max_bytes) {
  {
    std::lock_guard lock(channels_.mutex);
    if (!deferred_ || channels_.ended) return true;
    deferred_ = false;
  }
  return write(batches, max_bytes);
}

bool WriteScheduler::write(int batches, std::int64_t max_bytes) {
  while (true) {
    if (batch_->is_written()) {
      std::lock_guard lock(channels_.mutex);
      account_batch();
      if (channels_.ended) return end_writing();
      if (first_ == nullptr) {
        writing_ = false;
        return true;
      }
      if (batches-- > 0) fill_batch(max_bytes);
      if (batch_->item_count == 0) {
        defer();
        return true;
      }
    }
    Batch& batch = *batch_;
    std::int64_t n = wire_.write(&batch.parts[static_cast<std::size_t>(batch.parts_written)],
                                 batch.part_count - batch.parts_written);
    if (n > 0) {
      batch.advance(n);
      continue;
    }
    if (n == 0) {
      {
        std::lock_guard lock(channels_.mutex);
        if (channels_.ended) return end_writing();
        deferred_ = true;
      }
      if (wire_.wait_to_write()) return true;
      std::lock_guard lock(channels_.mutex);
      if (!deferred_) return true;  // another thread continues
      deferred_ = false;
      continue;
    }
    std::lock_guard lock(channels_.mutex);
    if (channels_.ended) return end_writing();
    writing_ = false;
    wire_.shut();  // the reading thread sees the end and reports it
    return false;
  }
}

// Gives up the writing role after the reading thread has seen the end. Call with the lock held.
bool WriteScheduler::end_writing() {
  writing_ = false;
  channels_.publish_failure();
  return true;
}

// Adds the next frames: for each channel in turn, its credits and one data frame. A frame longer than `max_bytes` is
// sent separately, and never in a sender's thread.
void WriteScheduler::fill_batch(std::int64_t max_bytes) {
  while (first_ != nullptr && batch_->item_count < frames_per_batch) {
    Channel& c = *first_;
    if (c.close_pending) {
      batch_->add({Frame::Kind::close, 0, c.number, 0}, {&c, 0, false, false}, nullptr);
      c.close_sent = std::exchange(c.close_pending, false);
      ++c.frames_in_batch;
    } else if (c.has_credits_to_send()) {
      const std::int64_t last = c.credits_due - 1;
      batch_->add({Frame::Kind::credit, static_cast<std::uint32_t>(last - c.credits_sent), c.number,
                   c.receives[c.slot(last)].bytes},
                  {&c, 0, false, false}, nullptr);
      c.credits_sent = c.credits_due;
      ++c.frames_in_batch;
      continue;
    }
    bool sends = !c.closed && c.can_send();
    if (sends) {
      const Channel::Message& message = c.sends[c.slot(c.batched_count)];
      std::int64_t length = std::min(message.bytes - c.batched_bytes, Frame::max_length);
      if (length > max_bytes && (max_bytes <= max_inline || batch_->item_count > 0)) return;
      max_bytes -= length;
      bool ends_message = c.batched_bytes + length == message.bytes;
      batch_->add({Frame::Kind::data, static_cast<std::uint32_t>(length), c.number, message.bytes},
                  {&c, length, true, ends_message}, message.from + c.batched_bytes);
      c.batched_bytes = ends_message ? 0 : c.batched_bytes + length;
      if (c.batched_count >= c.credit_count)
        c.eager_sender.sent_without_credit(c.batched_count, message.bytes);  // counted once: it fits in one frame
      c.batched_count += ends_message;
      ++c.frames_in_batch, ++c.data_frames_in_batch;
    }
    first_ = c.next;
    if (first_ == nullptr) last_ = nullptr;
    c.queued = false;
    if (sends && c.can_send()) queue(c);
  }
}

// Counts the frames of a batch that has been written. Call with the lock held.
void WriteScheduler::account_batch() {
  for (int i = 0; i < batch_->item_count; ++i) {
    const Batch::Item& item = batch_->items[static_cast<std::size_t>(i)];
    Channel& c = *item.channel;
    --c.frames_in_batch;
    if (item.is_data) --c.data_frames_in_batch;
    c.bytes_sent.fetch_add(item.data_bytes, std::memory_order_relaxed);
    if (item.ends_message) {
      c.messages_sent.fetch_add(1, std::memory_order_release);
      if (c.is_open()) c.notifier->notify();
    }
    if (c.closed) channels_.closable.notify_all(), channels_.erase_if_closed(c);
  }
  batch_->clear();
}

// Leaves the rest to the reactor, or to a polling thread. Call with the lock held.
void WriteScheduler::defer() {
  deferred_ = true;
  on_deferred_();
}

}  // namespace karez::comm
