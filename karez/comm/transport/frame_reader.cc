// Implements the frame reader: parses and checks frames, and ends the connection after an invalid frame.
#include "karez/comm/transport/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::comm {

FrameReader::FrameReader(ChannelTable& channels, WriteScheduler& writer, Wire& wire)
    : channels_(channels),
      writer_(writer),
      wire_(wire),
      buffer_(16 << 10) {}

bool FrameReader::read_some() {
  iovec parts[2];
  int part_count = 0;
  if (missing_bytes_ > 0) parts[part_count++] = {position_, static_cast<std::size_t>(missing_bytes_)};
  parts[part_count++] = {buffer_.data() + end_, buffer_.size() - end_};
  std::int64_t n = wire_.read(parts, part_count);
  if (n < 0) finish(wire_.reason());
  if (n <= 0) return false;
  bytes_received_.store(bytes_received_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  std::int64_t direct = std::min(n, missing_bytes_);
  position_ += direct;
  missing_bytes_ -= direct;
  if (direct > 0 && missing_bytes_ == 0) finish_frame();
  end_ += static_cast<std::size_t>(n - direct);
  return parse_buffer();
}

void FrameReader::read_to_end() {
  while (read_some()) {}
  if (!channels_.ended) finish(wire_.reason());
}

// Returns false if the connection has ended.
bool FrameReader::parse_buffer() {
  while (missing_bytes_ == 0 && end_ - begin_ >= Frame::bytes) {
    Frame frame;
    std::string violation;
    if (!decode(buffer_.data() + begin_, frame, violation)) return reject(violation);
    begin_ += Frame::bytes;
    using Kind = Frame::Kind;
    if (!(frame.kind == Kind::credit  ? handle_credit(frame)
          : frame.kind == Kind::close ? handle_close(frame)
                                      : handle_data(frame)))
      return false;
    if (frame.kind != Kind::data) continue;
    auto buffered = std::min(missing_bytes_, static_cast<std::int64_t>(end_ - begin_));
    if (buffered > 0) copy_bytes(position_, buffer_.data() + begin_, static_cast<std::size_t>(buffered));
    begin_ += static_cast<std::size_t>(buffered);
    position_ += buffered;
    missing_bytes_ -= buffered;
    if (missing_bytes_ == 0) finish_frame();
  }
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return true;
}

bool FrameReader::handle_close(const Frame& frame) {
  std::unique_lock lock(channels_.mutex);
  Channel* c = channels_.find_or_create(frame.channel);
  if (c == nullptr) {
    lock.unlock();
    return reject(cat("a close frame for more than ", ChannelTable::max_channels, " links, or for a closed link"));
  }
  c->closed_by_peer = true;
  channels_.erase_if_closed(*c);
  return true;
}

bool FrameReader::handle_credit(const Frame& frame) {
  std::unique_lock lock(channels_.mutex);
  Channel* channel = channels_.find_or_create(frame.channel);
  if (channel == nullptr) {
    lock.unlock();
    return reject(cat("credits for more than ", ChannelTable::max_channels, " links, or for a closed link"));
  }
  Channel& c = *channel;
  if (c.closed) return true;
  const std::int64_t new_count = c.credit_count + frame.length + 1;
  if (new_count - c.batched_count >
      (c.sends.empty() ? ChannelTable::max_depth : static_cast<std::int64_t>(c.sends.size()))) {
    lock.unlock();
    return reject(cat("more than ", new_count - 1 - c.batched_count, " pending posted receives"));
  }
  for (; c.credit_count < new_count; ++c.credit_count) {
    const std::int64_t size = c.credit_count + 1 == new_count ? frame.size : Channel::unknown_size;
    if (c.sends.empty()) {
      c.credits.push_back(size);
    } else if (c.credit_count < c.batched_count) {
      c.eager_sender.credit_arrived(c.credit_count);
    } else if (const std::int64_t bytes = c.sends[c.slot(c.credit_count)].bytes;
               c.credit_count < c.send_count && size != Channel::unknown_size && bytes != size) {
      lock.unlock();
      return reject(size_mismatch(bytes, size));
    } else {
      c.credits[c.slot(c.credit_count)] = size;
    }
  }
  if (!c.sends.empty() && c.can_send()) writer_.queue_for_reader(c);
  return true;
}

bool FrameReader::handle_data(const Frame& frame) {
  std::unique_lock lock(channels_.mutex);
  Channel* c = channels_.find(frame.channel);
  std::string violation;
  if (c == nullptr || c->closed_by_peer || (!c->is_open() && !c->closed)) {
    violation = "a message on a link that is not open here";
  } else if (c->arrived_count >= c->receive_count || c->closed) {
    const bool eager = frame.length == frame.size &&
                       (c->closed ? c->arrived_count >= c->credits_sent && frame.size <= EagerWindow::bytes
                                  : c->eager_buffer.fits(frame.size));
    if (eager && c->credits_sent > 0) {
      begin_frame(*c, c->closed ? discard_buffer() : c->eager_buffer.push(frame.size), frame.length,
                  Channel::Arrival::buffer);
      return true;
    }
    violation = c->closed ? "a message on a link that is not open here" : "a message for which no receive is posted";
  } else if (const Channel::Message& receive = c->receives[c->slot(c->arrived_count)];
             receive.bytes != frame.size || c->arrived_bytes + frame.length > receive.bytes) {
    violation = size_mismatch(frame.size, receive.bytes);
  } else {
    begin_frame(*c, receive.into + c->arrived_bytes, frame.length, Channel::Arrival::posted_receive);
    return true;
  }
  lock.unlock();
  return reject(violation);
}

void FrameReader::begin_frame(Channel& channel, std::byte* into, std::int64_t length, Channel::Arrival arrival) {
  channel_ = &channel;
  channel.arrival = arrival;
  position_ = into;
  frame_bytes_ = missing_bytes_ = length;
}

// Memory for eager messages of closed links, which are discarded.
std::byte* FrameReader::discard_buffer() {
  if (discard_buffer_.empty()) discard_buffer_.resize(EagerWindow::bytes);
  return discard_buffer_.data();
}

void FrameReader::finish_frame() {
  std::lock_guard lock(channels_.mutex);
  Channel& c = *channel_;
  channel_ = nullptr;
  const bool buffered = std::exchange(c.arrival, Channel::Arrival::none) == Channel::Arrival::buffer;
  if (c.closed) {
    ++c.arrived_count;
    c.eager_buffer.clear();
    return channels_.closable.notify_all();
  }
  if (buffered) {
    if (c.arrived_count++ >= c.receive_count) return;
    if (!deliver_buffered(c)) return;
  } else {
    c.arrived_bytes += frame_bytes_;
    if (c.arrived_bytes < c.receives[c.slot(c.arrived_count)].bytes) return;
    c.arrived_bytes = 0;
    ++c.arrived_count;
    c.messages_received.fetch_add(1, std::memory_order_release);
  }
  c.notifier->notify();
}

bool FrameReader::deliver_buffered(Channel& c) {
  const Channel::Message& receive = c.receives[c.slot(c.messages_received.load(std::memory_order_relaxed))];
  const EagerBuffer::Message& message = c.eager_buffer.front();
  if (message.bytes != receive.bytes) {
    channels_.set_end_reason(cat("the peer violated the protocol: ", size_mismatch(message.bytes, receive.bytes)));
    wire_.shut();
    return false;
  }
  if (message.bytes > 0) copy_bytes(receive.into, message.data, static_cast<std::size_t>(message.bytes));
  c.eager_buffer.pop();
  c.messages_received.fetch_add(1, std::memory_order_release);
  return true;
}

bool FrameReader::reject(const std::string& violation) {
  finish(cat("the peer violated the protocol: ", violation));
  return false;
}

// Ends the connection: from here on no posted memory is written. The links are notified once no thread writes either.
void FrameReader::finish(const std::string& reason) {
  std::lock_guard lock(channels_.mutex);
  channels_.set_end_reason(reason);
  channels_.ended = true;
  channels_.closable.notify_all();
  wire_.shut();
  if (writer_.is_idle()) channels_.publish_failure();
}

}  // namespace karez::comm
