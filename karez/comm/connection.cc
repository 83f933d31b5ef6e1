// Connection: multiplexes channels on a wire: writing, reading, and the end of the wire.
#include "karez/comm/connection.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"
#include "karez/comm/channel.h"

namespace karez::comm {
namespace {
constexpr std::int64_t max_inline = 64 << 10;    // bytes that a sender's own thread writes; more would delay its work
constexpr std::int64_t max_polling = 256 << 10;  // bytes that a polling thread writes before it reads again, so that
                                                 // replies are read while they are in the caches
constexpr int frames_per_batch = 64;
constexpr std::size_t max_peer_channels = 1 << 16;  // channels that a peer may name before they are opened here
constexpr int max_depth = 1 << 12;
constexpr std::chrono::milliseconds close_timeout{250};  // for a stopped peer

std::string sizes_differ(std::int64_t message, std::int64_t receive) {
  return cat("a message of ", message, " bytes does not match a receive of ", receive);
}
}  // namespace

// The frames that are being written, with their bytes, as parts for the wire. Owned by the writing thread.
struct Connection::Batch {
  struct Item {
    Channel* channel;
    std::int64_t bytes;  // of data
    bool data, ends_message;
  };
  std::array<std::array<std::byte, Frame::bytes>, frames_per_batch> frames;
  std::array<iovec, 2 * frames_per_batch> parts;
  std::array<Item, frames_per_batch> items;
  int items_used = 0, parts_used = 0, parts_written = 0;

  bool written() const { return parts_written == parts_used; }
  void clear() { items_used = parts_used = parts_written = 0; }
  void add(const Frame& frame, const Item& item, const std::byte* from) {
    auto& bytes = frames[static_cast<std::size_t>(items_used)];
    encode(frame, bytes.data());
    items[static_cast<std::size_t>(items_used++)] = item;
    parts[static_cast<std::size_t>(parts_used++)] = {bytes.data(), bytes.size()};
    if (frame.kind == Frame::Kind::data && frame.length > 0)
      parts[static_cast<std::size_t>(parts_used++)] = {const_cast<std::byte*>(from), frame.length};
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

class ChannelLink : public Link {
 public:
  ChannelLink(Connection& connection, Channel& channel) : connection_(connection), channel_(channel) {}
  ~ChannelLink() override {
    if (polling_) connection_.set_busy_poll(false);
    connection_.close(channel_);
  }
  void post_receive(std::byte* into, std::int64_t bytes) override { connection_.post_receive(channel_, into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override { connection_.send(channel_, from, bytes); }
  std::int64_t received() const override { return channel_.received.load(std::memory_order_acquire); }
  std::int64_t sent() const override { return channel_.sent.load(std::memory_order_acquire); }
  std::int64_t bytes_sent() const override { return channel_.bytes_sent.load(std::memory_order_relaxed); }
  int depth() const override { return static_cast<int>(channel_.out.size()); }
  const Error* failure() const override { return connection_.failure(); }
  void set_busy_poll(bool polling) override {
    if (polling != polling_) connection_.set_busy_poll(polling);
    polling_ = polling;
  }
  void poll() override { connection_.poll(); }

 private:
  Connection& connection_;
  Channel& channel_;
  bool polling_ = false;
};

Connection::Connection(Reactor& reactor, std::unique_ptr<Wire> wire, std::string peer)
    : reactor_(reactor),
      wire_(std::move(wire)),
      peer_(std::move(peer)),
      batch_(std::make_unique<Batch>()),
      buffer_(16 << 10) {
  reactor_.watch(wire_->descriptor(), wire_->events(false), *this, registration_);
  reactor_.schedule(registration_);  // data may have arrived already
}

// The bytes written last may still be in transit, and a socket that closes with unread data discards them. So the other
// side first reads to the end, and ends too.
Connection::~Connection() {
  {
    std::unique_lock lock(mutex_);
    wire_->finish_writing();
    released_.wait_for(lock, close_timeout, [this] { return ended_; });
  }
  wire_->shut();
  reactor_.remove(registration_);
}

std::unique_ptr<Link> Connection::open(std::uint64_t number, int depth, Notifier& notifier) {
  require(depth >= 1 && depth <= max_depth, "link depth is ", depth, "; it must be between 1 and ", max_depth);
  std::lock_guard lock(mutex_);
  auto& channel = channels_[number];
  if (channel == nullptr) channel = std::make_unique<Channel>(number);
  require(channel->notifier == nullptr && !channel->closed, "channel ", number, " to ", peer_, " was opened before");
  require(channel->credited <= depth, "channel ", number, ": ", peer_, " has posted ", channel->credited,
          " receives, more than its depth of ", depth);
  channel->out.resize(static_cast<std::size_t>(depth));
  channel->in.resize(static_cast<std::size_t>(depth));
  channel->credits.resize(static_cast<std::size_t>(depth));
  channel->notifier = &notifier;
  if (const Error* failure = this->failure()) notifier.notify_failure(*failure);
  return std::make_unique<ChannelLink>(*this, *channel);
}

void Connection::post_receive(Channel& c, std::byte* into, std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  if (const Error* failure = failure_.load(); failure != nullptr && c.posted >= c.arrived) throw Error(*failure);
  auto depth = static_cast<std::int64_t>(c.in.size());
  if (c.posted - c.received.load(std::memory_order_relaxed) >= depth)
    fail(ErrorKind::user, "link to ", peer_, ": more than ", depth, " posted receives are pending");
  const std::int64_t message = c.posted++;
  c.in[c.slot(message)] = {into, nullptr, bytes};
  if (message < c.arrived && !take_eager(c)) return;
  if (!c.deferred_credits.posted(message == 0, bytes)) return;
  c.to_announce = c.posted;
  queue(c);
  write_now(lock);
}

// Copies the first eager message into its posted receive. If the sizes differ, the wire ends, and the reading thread
// reports it.
bool Connection::take_eager(Channel& c) {
  const Channel::Message& to = c.in[c.slot(c.received.load(std::memory_order_relaxed))];
  const EagerBuffer::Message& message = c.eager_buffer.front();
  if (message.bytes != to.bytes) {
    if (why_.empty()) why_ = cat("it violated the protocol: ", sizes_differ(message.bytes, to.bytes));
    wire_->shut();
    return false;
  }
  if (message.bytes > 0) copy_bytes(to.into, message.at, static_cast<std::size_t>(message.bytes));
  c.eager_buffer.pop();
  c.received.fetch_add(1, std::memory_order_release);
  return true;
}

void Connection::send(Channel& c, const std::byte* from, std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  if (const Error* failure = failure_.load()) throw Error(*failure);
  auto depth = static_cast<std::int64_t>(c.out.size());
  if (c.sends - c.sent.load(std::memory_order_relaxed) >= depth)
    fail("link to ", peer_, ": more than ", depth, " sends are pending");
  if (std::int64_t size = c.sends < c.credited ? c.credits[c.slot(c.sends)] : Channel::unknown;
      size != Channel::unknown && size != bytes)
    fail("link to ", peer_, ": ", sizes_differ(bytes, size));
  c.out[c.slot(c.sends++)] = {nullptr, from, bytes};
  if (!c.can_send()) return;
  queue(c);
  write_now(lock);
}

void Connection::close(Channel& c) {
  std::unique_lock lock(mutex_);
  c.closed = true;
  const bool fills = into_ == &c && !into_eager_;
  bool half = fills || c.data_in_batch > 0 || c.batched_bytes > 0 || c.filled > 0;
  if (half && failure() == nullptr) {
    if (why_.empty()) why_ = "a link was closed here in the middle of a message";
    wire_->shut();
  }
  released_.wait(lock, [&] { return failure() != nullptr || !((into_ == &c && !into_eager_) || c.data_in_batch > 0); });
  if (into_ != &c) c.eager_buffer.clear();
  c.close_pending = true;
  queue(c);
  c.notifier = nullptr;
  write_now(lock);
}

// Erases the channel of a link that both ends have closed and of which nothing is in transit in either direction. Under
// the lock; the channel may be destroyed afterwards.
void Connection::forget_closed(Channel& c) {
  if (c.close_sent && c.peer_closed && c.in_batch == 0 && into_ != &c && failure() == nullptr)
    channels_.erase(c.number);
}

void Connection::end(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = why;
  wire_->shut();
}

// --- writing

void Connection::queue(Channel& c) {
  if (c.queued || c.notifier == nullptr) return;
  c.queued = true;
  c.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &c;
  last_ = &c;
}

// In the thread that sends or posts. If another thread is writing, it writes this too.
void Connection::write_now(std::unique_lock<std::mutex>& lock) {
  if (writing_ || ended_) return;
  writing_ = true;
  lock.unlock();
  write(1, max_inline);
}

// In the reactor's thread or a polling thread.
void Connection::write_on(int batches, std::int64_t most) {
  {
    std::lock_guard lock(mutex_);
    if (!blocked_ || ended_) return;
    blocked_ = false;
  }
  write(batches, most);
}

void Connection::write(int batches, std::int64_t most) {
  while (true) {
    if (batch_->written()) {
      std::lock_guard lock(mutex_);
      account();
      if (ended_) {
        writing_ = false;
        return publish_failure();
      }
      if (first_ == nullptr) {
        writing_ = false;
        return;
      }
      if (batches-- > 0) fill(most);
      if (batch_->items_used == 0) return defer_writing();
    }
    Batch& batch = *batch_;
    std::int64_t n = wire_->write(&batch.parts[static_cast<std::size_t>(batch.parts_written)],
                                  batch.parts_used - batch.parts_written);
    if (n > 0) {
      batch.advance(n);
      continue;
    }
    if (n == 0) {
      {
        std::lock_guard lock(mutex_);
        if (ended_) {
          writing_ = false;
          return publish_failure();
        }
        blocked_ = true;
      }
      if (wire_->wait_to_write()) return;
      std::lock_guard lock(mutex_);
      if (!blocked_) return;  // another thread continues
      blocked_ = false;
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      if (ended_) return publish_failure();
      wire_->shut();  // the reading thread sees the end and reports it
    }
    if (!reading_.exchange(true, std::memory_order_acquire)) read_to_the_end();
    return;
  }
}

// Adds the next frames: of each channel in turn its credits and one frame of data. A frame longer than `most` is sent
// separately, and never in a sender's thread.
void Connection::fill(std::int64_t most) {
  while (first_ != nullptr && batch_->items_used < frames_per_batch) {
    Channel& c = *first_;
    if (c.close_pending) {
      batch_->add({Frame::Kind::close, 0, c.number, 0}, {&c, 0, false, false}, nullptr);
      c.close_sent = std::exchange(c.close_pending, false);
      ++c.in_batch;
    } else if (c.has_credits_to_send()) {
      const std::int64_t last = c.to_announce - 1;
      batch_->add(
          {Frame::Kind::credit, static_cast<std::uint32_t>(last - c.announced), c.number, c.in[c.slot(last)].bytes},
          {&c, 0, false, false}, nullptr);
      c.announced = c.to_announce;
      ++c.in_batch;
      continue;
    }
    bool sends = !c.closed && c.can_send();
    if (sends) {
      const Channel::Message& message = c.out[c.slot(c.begun)];
      std::int64_t length = std::min(message.bytes - c.batched_bytes, Frame::max_length);
      if (length > most && (most <= max_inline || batch_->items_used > 0)) return;
      most -= length;
      bool ends = c.batched_bytes + length == message.bytes;
      batch_->add({Frame::Kind::data, static_cast<std::uint32_t>(length), c.number, message.bytes},
                  {&c, length, true, ends}, message.from + c.batched_bytes);
      c.batched_bytes = ends ? 0 : c.batched_bytes + length;
      if (c.begun >= c.credited) c.eager_sender.sent_without_credit(c.begun, message.bytes);  // in one frame
      c.begun += ends;
      ++c.in_batch, ++c.data_in_batch;
    }
    first_ = c.next;
    if (first_ == nullptr) last_ = nullptr;
    c.queued = false;
    if (sends && c.can_send()) queue(c);
  }
}

// The batch has been written.
void Connection::account() {
  for (int i = 0; i < batch_->items_used; ++i) {
    const Batch::Item& item = batch_->items[static_cast<std::size_t>(i)];
    Channel& c = *item.channel;
    --c.in_batch;
    if (item.data) --c.data_in_batch;
    c.bytes_sent.fetch_add(item.bytes, std::memory_order_relaxed);
    if (item.ends_message) {
      c.sent.fetch_add(1, std::memory_order_release);
      if (c.notifier != nullptr) c.notifier->notify();
    }
    if (c.closed) released_.notify_all(), forget_closed(c);
  }
  batch_->clear();
}

// Leaves the rest to the reactor, or to a polling thread, which polls again anyway. Called with the lock held.
void Connection::defer_writing() {
  blocked_ = true;
  if (polling_ == 0) reactor_.schedule(registration_);
}

// --- reading

void Connection::on_events(std::uint32_t) noexcept {
  wire_->handle_wakeup();
  while (reading_.exchange(true, std::memory_order_acquire)) {  // a polling thread is reading; it finishes soon
    if (failure() != nullptr) return;
    std::this_thread::yield();
  }
  bool more = true;
  for (int turn = 0; more && turn < 64; ++turn) {
    more = read_some();
    if (failure_.load(std::memory_order_relaxed) != nullptr || ended_) return;  // reading_ remains set
  }
  bool polling = false;
  {
    std::lock_guard lock(mutex_);
    polling = polling_ > 0;
  }
  more = more || (!polling && !wire_->wait_to_read());
  reading_.store(false, std::memory_order_release);
  write_on(16, Frame::max_length);
  if (more) reactor_.schedule(registration_);  // after other events
}

void Connection::poll() {
  if (!reading_.exchange(true, std::memory_order_acquire)) {
    read_some();
    if (ended_) return;
    reading_.store(false, std::memory_order_release);
  }
  write_on(1, max_polling);
}

void Connection::set_busy_poll(bool polling) {
  {
    std::lock_guard lock(mutex_);
    polling_ += polling ? 1 : -1;
    if (polling_ != (polling ? 1 : 0)) return;
    wire_->set_busy_poll(polling);
    if (wire_->events(true) != wire_->events(false)) reactor_.change(registration_, wire_->events(polling));
  }
  if (!polling && !rearm_events()) reactor_.schedule(registration_);
}

// Whether there is nothing left to read or write, and the reactor will be notified of new data.
bool Connection::rearm_events() {
  if (reading_.exchange(true, std::memory_order_acquire)) return false;
  for (int turn = 0; turn < 64 && read_some(); ++turn) {}
  if (ended_) return true;  // reading_ remains set
  const bool armed = wire_->wait_to_read();
  reading_.store(false, std::memory_order_release);
  std::lock_guard lock(mutex_);
  return armed && !blocked_;
}

// True if data arrived. If ended_ is set afterwards, no thread may read again.
bool Connection::read_some() {
  iovec into[2];
  int parts = 0;
  if (left_ > 0) into[parts++] = {at_, static_cast<std::size_t>(left_)};
  into[parts++] = {buffer_.data() + end_, buffer_.size() - end_};
  std::int64_t n = wire_->read(into, parts);
  if (n < 0) finish(wire_->reason());
  if (n <= 0) return false;
  bytes_received_.store(bytes_received_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  std::int64_t direct = std::min(n, left_);
  at_ += direct;
  left_ -= direct;
  if (direct > 0 && left_ == 0) finish_frame();
  end_ += static_cast<std::size_t>(n - direct);
  return parse();
}

// Reads the rest of a wire that has ended, with reading_ set for good: data that the peer wrote before the end still
// counts.
void Connection::read_to_the_end() {
  while (read_some()) {}
  if (!ended_) finish(wire_->reason());
}

// Parses the frames in the buffer; false when the connection has ended.
bool Connection::parse() {
  while (left_ == 0 && end_ - begin_ >= Frame::bytes) {
    Frame frame;
    std::string reason;
    if (!decode(buffer_.data() + begin_, frame, reason)) return refuse(reason);
    begin_ += Frame::bytes;
    using Kind = Frame::Kind;
    if (!(frame.kind == Kind::credit  ? take_credit(frame)
          : frame.kind == Kind::close ? take_close(frame)
                                      : take_data(frame)))
      return false;
    if (frame.kind != Kind::data) continue;
    auto here = std::min(left_, static_cast<std::int64_t>(end_ - begin_));
    if (here > 0) copy_bytes(at_, buffer_.data() + begin_, static_cast<std::size_t>(here));
    begin_ += static_cast<std::size_t>(here);
    at_ += here;
    left_ -= here;
    if (left_ == 0) finish_frame();
  }
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return true;
}

// The channel of this number, created if the peer names it first. Null if the peer names too many or has closed this
// one. Under the lock.
Channel* Connection::channel_of_peer(std::uint64_t number) {
  auto at = channels_.find(number);
  if (at == channels_.end()) {
    if (channels_.size() >= max_peer_channels) return nullptr;
    at = channels_.emplace(number, std::make_unique<Channel>(number)).first;
  }
  return at->second->peer_closed ? nullptr : at->second.get();
}

bool Connection::take_close(const Frame& frame) {
  std::unique_lock lock(mutex_);
  Channel* c = channel_of_peer(frame.channel);
  if (c == nullptr) {
    lock.unlock();
    return refuse("the close of a link that it has closed already or that exceeds the limit");
  }
  c->peer_closed = true;
  forget_closed(*c);
  return true;
}

bool Connection::take_credit(const Frame& frame) {
  std::unique_lock lock(mutex_);
  Channel* named = channel_of_peer(frame.channel);
  if (named == nullptr) {
    lock.unlock();
    return refuse(cat("credits for more than ", max_peer_channels, " links, or for one that it has closed"));
  }
  Channel& c = *named;
  if (c.closed) return true;
  const std::int64_t told = c.credited + frame.length + 1;
  if (told - c.begun > (c.out.empty() ? max_depth : static_cast<std::int64_t>(c.out.size()))) {
    lock.unlock();
    return refuse(cat("more than ", told - 1 - c.begun, " posted receives at once"));
  }
  for (; c.credited < told; ++c.credited) {
    const std::int64_t size = c.credited + 1 == told ? frame.size : Channel::unknown;
    if (c.out.empty()) {
      c.credits.push_back(size);
    } else if (c.credited < c.begun) {
      c.eager_sender.credited(c.credited);
    } else if (const std::int64_t bytes = c.out[c.slot(c.credited)].bytes;
               c.credited < c.sends && size != Channel::unknown && bytes != size) {
      lock.unlock();
      return refuse(sizes_differ(bytes, size));
    } else {
      c.credits[c.slot(c.credited)] = size;
    }
  }
  if (c.out.empty() || !c.can_send()) return true;
  queue(c);
  if (!writing_ && !ended_) writing_ = blocked_ = true;  // the reading thread writes next
  return true;
}

bool Connection::take_data(const Frame& frame) {
  std::unique_lock lock(mutex_);
  auto at = channels_.find(frame.channel);
  Channel* c = at == channels_.end() ? nullptr : at->second.get();
  std::string why;
  if (c == nullptr || c->peer_closed || (c->notifier == nullptr && !c->closed)) {
    why = "a message on a link that is not open here";
  } else if (c->arrived >= c->posted || c->closed) {
    const bool eager =
        frame.length == frame.size &&
        (c->closed ? c->arrived >= c->announced && frame.size <= EagerWindow::bytes : c->eager_buffer.fits(frame.size));
    if (eager && c->announced > 0) {
      take_frame(*c, c->closed ? discard_buffer() : c->eager_buffer.push(frame.size), frame.length);
      into_eager_ = true;
      return true;
    }
    why = c->closed ? "a message on a link that is not open here" : "a message for which no receive is posted";
  } else if (const Channel::Message& message = c->in[c->slot(c->arrived)];
             message.bytes != frame.size || c->filled + frame.length > message.bytes) {
    why = sizes_differ(frame.size, message.bytes);
  } else {
    take_frame(*c, message.into + c->filled, frame.length);
    into_eager_ = false;
    return true;
  }
  lock.unlock();
  return refuse(why);
}

void Connection::take_frame(Channel& c, std::byte* into, std::int64_t length) {
  into_ = &c;
  at_ = into;
  length_ = left_ = length;
}

// Memory for eager messages of closed links, which are discarded.
std::byte* Connection::discard_buffer() {
  if (discard_buffer_.empty()) discard_buffer_.resize(EagerWindow::bytes);
  return discard_buffer_.data();
}

void Connection::finish_frame() {
  std::lock_guard lock(mutex_);
  Channel& c = *into_;
  into_ = nullptr;
  if (c.closed) {
    ++c.arrived;
    c.eager_buffer.clear();
    return released_.notify_all();
  }
  if (into_eager_) {
    if (c.arrived++ >= c.posted) return;
    if (!take_eager(c)) return;
  } else {
    c.filled += length_;
    if (c.filled < c.in[c.slot(c.arrived)].bytes) return;
    c.filled = 0;
    ++c.arrived;
    c.received.fetch_add(1, std::memory_order_release);
  }
  c.notifier->notify();
}

bool Connection::refuse(const std::string& why) {
  finish(cat("it violated the protocol: ", why));
  return false;
}

// In the reading thread, which leaves reading_ set: from here on no posted memory is written. Once no thread writes
// either, the links are notified.
void Connection::finish(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = why;
  ended_ = true;
  released_.notify_all();
  wire_->shut();
  if (!writing_ || blocked_) publish_failure();
}

// Called with the lock held; only the first call has an effect.
void Connection::publish_failure() {
  if (error_ != nullptr) return;
  error_ = std::make_unique<Error>(ErrorKind::peer, cat("link to ", peer_, ": ", why_));
  failure_.store(error_.get(), std::memory_order_release);
  for (auto& [number, channel] : channels_)
    if (channel->notifier != nullptr) channel->notifier->notify_failure(*error_);
  released_.notify_all();
}

}  // namespace karez::comm
