// Implements connections: opens and closes links, sends and receives, handles events, and ends the connection.
#include "karez/comm/transport/connection.h"

#include <chrono>
#include <thread>
#include <utility>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
// Bytes that a polling thread writes before it reads again, so that replies are read while they are in the caches.
constexpr std::int64_t max_polling_bytes = 256 << 10;
constexpr int max_reads = 64;                            // between two writes
constexpr std::chrono::milliseconds close_timeout{250};  // for a stopped peer
}  // namespace

class ChannelLink : public Link {
 public:
  ChannelLink(Connection& connection, Channel& channel) : connection_(connection), channel_(channel) {}
  ~ChannelLink() override {
    if (polling_) connection_.set_busy_poll(false);
    connection_.close(channel_);
  }
  void post_receive(std::byte* into, std::int64_t bytes) override { connection_.post_receive(channel_, into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override { connection_.send(channel_, from, bytes); }
  std::int64_t received() const override { return channel_.messages_received.load(std::memory_order_acquire); }
  std::int64_t sent() const override { return channel_.messages_sent.load(std::memory_order_acquire); }
  std::int64_t bytes_sent() const override { return channel_.bytes_sent.load(std::memory_order_relaxed); }
  int depth() const override { return static_cast<int>(channel_.sends.size()); }
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
      channels_(std::move(peer)),
      writer_(channels_, *wire_,
              [this] {
                if (polling_threads_ == 0) reactor_.schedule(registration_);  // a polling thread polls again anyway
              }),
      reader_(channels_, writer_, *wire_) {
  reactor_.watch(wire_->descriptor(), wire_->events(false), *this, registration_);
  reactor_.schedule(registration_);  // data may have arrived already
}

// The bytes written last may still be in transit, and a socket that closes with unread data discards them. So the other
// side first reads to the end, and then ends the wire, too.
Connection::~Connection() {
  {
    std::unique_lock lock(channels_.mutex);
    wire_->finish_writing();
    channels_.closable.wait_for(lock, close_timeout, [this] { return channels_.ended; });
  }
  wire_->shut();
  reactor_.remove(registration_);
}

std::unique_ptr<Link> Connection::open(std::uint64_t number, int depth, Notifier& notifier) {
  require(depth >= 1 && depth <= ChannelTable::max_depth, "link depth is ", depth, "; it must be between 1 and ",
          ChannelTable::max_depth);
  std::lock_guard lock(channels_.mutex);
  return std::make_unique<ChannelLink>(*this, channels_.open(number, depth, notifier));
}

void Connection::post_receive(Channel& c, std::byte* into, std::int64_t bytes) {
  std::unique_lock lock(channels_.mutex);
  if (const Error* error = channels_.failure.load(); error != nullptr && c.receive_count >= c.arrived_count)
    throw Error(*error);
  auto depth = static_cast<std::int64_t>(c.receives.size());
  if (c.receive_count - c.messages_received.load(std::memory_order_relaxed) >= depth)
    fail(ErrorKind::user, "link to ", peer(), ": more than ", depth, " posted receives are pending");
  const std::int64_t message = c.receive_count++;
  c.receives[c.slot(message)] = {into, nullptr, bytes};
  if (message < c.arrived_count && !reader_.deliver_buffered(c)) return;
  if (!c.deferred_credits.add(message == 0, bytes)) return;
  c.credits_due = c.receive_count;
  writer_.queue(c);
  write_now(lock);
}

void Connection::send(Channel& c, const std::byte* from, std::int64_t bytes) {
  std::unique_lock lock(channels_.mutex);
  if (const Error* error = channels_.failure.load()) throw Error(*error);
  auto depth = static_cast<std::int64_t>(c.sends.size());
  if (c.send_count - c.messages_sent.load(std::memory_order_relaxed) >= depth)
    fail("link to ", peer(), ": more than ", depth, " sends are pending");
  if (std::int64_t size = c.send_count < c.credit_count ? c.credits[c.slot(c.send_count)] : Channel::unknown_size;
      size != Channel::unknown_size && size != bytes)
    fail("link to ", peer(), ": ", size_mismatch(bytes, size));
  c.sends[c.slot(c.send_count++)] = {nullptr, from, bytes};
  if (!c.can_send()) return;
  writer_.queue(c);
  write_now(lock);
}

void Connection::close(Channel& c) {
  using Arrival = Channel::Arrival;
  std::unique_lock lock(channels_.mutex);
  c.closed = true;
  const bool half_transferred =
      c.arrival == Arrival::posted_receive || c.data_frames_in_batch > 0 || c.batched_bytes > 0 || c.arrived_bytes > 0;
  if (half_transferred && failure() == nullptr) {
    channels_.set_end_reason("a link was closed here in the middle of a message");
    wire_->shut();
  }
  channels_.closable.wait(lock, [&] {
    return failure() != nullptr || (c.arrival != Arrival::posted_receive && c.data_frames_in_batch == 0);
  });
  if (c.arrival == Arrival::none) c.eager_buffer.clear();
  c.close_pending = true;
  writer_.queue(c);
  c.notifier = nullptr;
  write_now(lock);
}

// --- events

void Connection::write_now(std::unique_lock<std::mutex>& lock) {
  if (!writer_.write_now(lock)) read_ended_wire();
}

void Connection::resume_writing(int batches, std::int64_t max_bytes) {
  if (!writer_.resume(batches, max_bytes)) read_ended_wire();
}

void Connection::read_ended_wire() {
  if (reader_.try_acquire()) reader_.read_to_end();
}

void Connection::on_events(std::uint32_t) noexcept {
  wire_->handle_wakeup();
  while (!reader_.try_acquire()) {  // a polling thread is reading; it finishes soon
    if (failure() != nullptr) return;
    std::this_thread::yield();
  }
  bool more = true;
  for (int i = 0; more && i < max_reads; ++i) {
    more = reader_.read_some();
    if (channels_.failure.load(std::memory_order_relaxed) != nullptr || channels_.ended) return;
  }
  bool polling = false;
  {
    std::lock_guard lock(channels_.mutex);
    polling = polling_threads_ > 0;
  }
  more = more || (!polling && !wire_->wait_to_read());
  reader_.release();
  resume_writing(16, Frame::max_length);
  if (more) reactor_.schedule(registration_);  // after other events
}

void Connection::poll() {
  if (reader_.try_acquire()) {
    reader_.read_some();
    if (channels_.ended) return;
    reader_.release();
  }
  resume_writing(1, max_polling_bytes);
}

void Connection::set_busy_poll(bool polling) {
  {
    std::lock_guard lock(channels_.mutex);
    polling_threads_ += polling ? 1 : -1;
    if (polling_threads_ != (polling ? 1 : 0)) return;
    wire_->set_busy_poll(polling);
    if (wire_->events(true) != wire_->events(false)) reactor_.change(registration_, wire_->events(polling));
  }
  if (!polling && !rearm_events()) reactor_.schedule(registration_);
}

// Returns true if there is nothing left to read or write, and the reactor will be notified of new data.
bool Connection::rearm_events() {
  if (!reader_.try_acquire()) return false;
  for (int i = 0; i < max_reads && reader_.read_some(); ++i) {}
  if (channels_.ended) return true;
  const bool armed = wire_->wait_to_read();
  reader_.release();
  std::lock_guard lock(channels_.mutex);
  return armed && !writer_.is_deferred();
}

}  // namespace karez::comm
