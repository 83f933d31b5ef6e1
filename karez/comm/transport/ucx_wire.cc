// The UCX wire: its UCX worker is guarded by a lock, because reader and writer may be two threads, and each makes
// progress in both directions.
#include "karez/comm/transport/ucx_wire.h"

#include "karez/base/error.h"
#include "karez/comm/namespace.h"
#include "karez/comm/transport/ucx_events.h"
#include "karez/comm/transport/ucx_library.h"

#if __has_include(<ucp/api/ucp.h>)

#include <sys/epoll.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "karez/base/copy_bytes.h"
#include "karez/comm/transport/ucx_exchange.h"

namespace karez::comm {
namespace {

// Tells ThreadSanitizer that a send happens before its receive, for tests with both ends in one process.
#if defined(__SANITIZE_THREAD__)
std::atomic<int> order_count{0};
void note_order() { order_count.fetch_add(1, std::memory_order_acq_rel); }
#else
void note_order() {}
#endif

constexpr std::size_t slot_bytes = 256 << 10;
constexpr std::chrono::seconds close_timeout{1};
constexpr const char* local_transports = "self,shm";  // they open no listening socket

class UcxWire : public Wire {
 public:
  UcxWire(Descriptor socket, bool same_host, const std::string& transports);
  ~UcxWire() override;

  std::int64_t read(const iovec* into, int parts) override;
  std::int64_t write(const iovec* from, int parts) override;
  std::string reason() const override;
  bool wait_to_read() override;
  bool wait_to_write() override;
  int descriptor() const override { return events_.descriptor(); }
  std::uint32_t events(bool) const override { return EPOLLIN | EPOLLET; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override;
  void finish_writing() override;
  bool has_recent_ack(Seconds within) const override { return has_recent_tcp_ack(socket_.get(), within); }
  void shut() override;

 private:
  // Holds a part of the written bytes until UCX has sent it.
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    void* request = nullptr;
  };

  void send_address();
  void parse_socket_data(std::span<const std::byte> bytes);
  void connect(std::span<const std::byte> address);
  bool fail(const std::string& reason);
  // Call these with the lock held.
  void progress();
  bool fetch();
  Slot* free_slot();
  void send(Slot& slot, std::size_t bytes);
  void flush();

  const bool same_host_;  // if true, UCX does not check for failures, which its shared memory does not support
  Descriptor socket_;
  std::shared_ptr<UcxContext> context_;
  ucp_worker_h worker_;
  UcxEvents events_;
  std::mutex mutex_;  // guards the worker, its events and the following members
  ucp_ep_h ep_ = nullptr;
  std::array<Slot, 4> slots_;
  std::int64_t bytes_written_ = 0;
  bool finishing_ = false;
  void* flush_ = nullptr;
  std::string failure_reason_;  // empty if the wire has not failed

  char* data_ = nullptr;  // data that arrived and is not fully read; used by the reader
  std::size_t data_bytes_ = 0, data_position_ = 0;
  std::int64_t bytes_read_ = 0;
  UcxExchange exchange_;                              // used by the reactor's thread
  std::atomic<std::int64_t> peer_bytes_written_{-1};  // -1 if unknown
  std::atomic<bool> ended_{false}, failed_{false};
};

UcxWire::UcxWire(Descriptor socket, bool same_host, const std::string& transports)
    : same_host_(same_host),
      socket_(std::move(socket)),
      context_(UcxContext::shared(transports)),
      worker_(context_->create_worker()),
      events_(socket_.get(), worker_) {
  send_address();
}

UcxWire::~UcxWire() {
  const UcxLibrary& ucx = ucx_library();
  if (data_ != nullptr) ucx.release(ep_, data_);
  if (flush_ != nullptr) ucx.free(flush_);
  if (ep_ != nullptr && !same_host_) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = ucx.ep_close(ep_, &param);
    const auto until = std::chrono::steady_clock::now() + close_timeout;
    if (UCS_PTR_IS_PTR(request)) {
      while (ucx.status(request) == UCS_INPROGRESS && std::chrono::steady_clock::now() < until) ucx.progress(worker_);
      ucx.free(request);
    }
  }
  for (Slot& slot : slots_)
    if (slot.request != nullptr) ucx.free(slot.request);
  ucx.worker_destroy(worker_);
}

// Sends this worker's UCX address.
void UcxWire::send_address() {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  ucx_library().require(ucx_library().address(worker_, &address, &bytes), "return its address");
  struct Release {
    ucp_worker_h worker;
    ucp_address_t* address;
    ~Release() { ucx_library().release_address(worker, address); }
  } release{worker_, address};
  send_ucx_address(socket_.get(), {reinterpret_cast<const std::byte*>(address), bytes});
}

// --- data from the socket

void UcxWire::handle_wakeup() {
  events_.clear();
  {
    std::lock_guard lock(mutex_);
    events_.disarm();
  }
  std::byte buffer[4096];
  bool open = true;
  while (open) {
    auto n = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) parse_socket_data({buffer, static_cast<std::size_t>(n)});
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) open = false;
    else if (errno == EAGAIN) break;
  }
  std::lock_guard lock(mutex_);
  progress();
  if (finishing_) events_.arm_or_wake();
  if (!open) ended_.store(true, std::memory_order_release);
}

// Parses data from the socket: first the peer's UCX address; at the end, if the peer closes cleanly, the number of
// bytes that it has written.
void UcxWire::parse_socket_data(std::span<const std::byte> bytes) {
  exchange_.append(bytes);
  if (ep_ == nullptr) {
    if (exchange_.is_invalid()) return static_cast<void>(fail("the message contains no UCX address"));
    const auto address = exchange_.take_address();
    if (!address) return;
    connect(*address);
  }
  if (const auto written = exchange_.bytes_written()) peer_bytes_written_.store(*written, std::memory_order_release);
}

void UcxWire::connect(std::span<const std::byte> address) {
  std::lock_guard lock(mutex_);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = same_host_ ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = this;
  params.err_handler.cb = [](void* wire, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxWire*>(wire)->fail(ucx_library().status_text(status));
  };
  if (auto status = ucx_library().ep_create(worker_, &params, &ep_); status != UCS_OK) {
    ep_ = nullptr;
    fail(cat("UCX cannot connect to the peer: ", ucx_library().status_text(status)));
  }
}

// Marks the wire as failed. Call with the lock held, except for an invalid address: no other thread uses the wire yet.
bool UcxWire::fail(const std::string& reason) {
  if (failure_reason_.empty()) failure_reason_ = ended_ ? "the peer exited or closed the connection" : reason;
  failed_.store(true, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);
  return false;
}

// --- moving bytes

// Calls UCX once, so that it makes progress. Data that has arrived occupies UCX's buffers, so a reader consumes it
// first (fetch).
void UcxWire::progress() {
  const unsigned event_count = ucx_library().progress(worker_);
  for (Slot& slot : slots_) {
    if (slot.request == nullptr) continue;
    const ucs_status_t status = ucx_library().status(slot.request);
    if (status == UCS_INPROGRESS) continue;
    ucx_library().free(std::exchange(slot.request, nullptr));
    if (status != UCS_OK) fail(ucx_library().status_text(status));
  }
  if (finishing_) flush();
  if (event_count > 0 && events_.is_armed()) events_.wake();
}

// Returns true if data_ holds data to read.
bool UcxWire::fetch() {
  if (data_ != nullptr) return true;
  if (ep_ == nullptr || failed_) return false;
  std::size_t bytes = 0;
  void* data = ucx_library().receive(ep_, &bytes);
  if (data == nullptr) return false;
  if (UCS_PTR_IS_ERR(data)) return fail(ucx_library().status_text(UCS_PTR_STATUS(data)));
  note_order();
  data_ = static_cast<char*>(data);
  data_bytes_ = bytes;
  data_position_ = 0;
  return true;
}

std::int64_t UcxWire::read(const iovec* into, int parts) {
  const bool ended =
      ended_.load(std::memory_order_acquire);  // read before fetching: data written before the end counts
  {
    std::lock_guard lock(mutex_);
    if (!fetch()) progress();
    if (!fetch()) {
      const std::int64_t written = peer_bytes_written_.load(std::memory_order_acquire);
      return failed_ || (ended && (written < 0 || bytes_read_ >= written)) ? -1 : 0;
    }
  }
  std::int64_t done = 0;
  for (int i = 0; i < parts && data_position_ < data_bytes_; ++i) {
    const std::size_t step = std::min(into[i].iov_len, data_bytes_ - data_position_);
    copy_bytes(into[i].iov_base, data_ + data_position_, step);
    data_position_ += step;
    done += static_cast<std::int64_t>(step);
  }
  bytes_read_ += done;
  if (data_position_ < data_bytes_) return done;
  std::lock_guard lock(mutex_);
  ucx_library().release(ep_, std::exchange(data_, nullptr));
  return done;
}

UcxWire::Slot* UcxWire::free_slot() {
  for (Slot& slot : slots_)
    if (slot.request == nullptr) return &slot;
  return nullptr;
}

std::int64_t UcxWire::write(const iovec* from, int parts) {
  std::int64_t done = 0;
  std::size_t skipped = 0;  // bytes of the first part that are written
  while (parts > 0) {
    Slot* slot = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (failed_ || ended_) return done > 0 ? done : -1;
      if (ep_ == nullptr) return 0;
      slot = free_slot();
      if (slot == nullptr) {
        progress();
        slot = free_slot();
      }
    }
    if (slot == nullptr) break;
    if (slot->memory == nullptr) slot->memory.reset(new std::byte[slot_bytes]);
    std::size_t filled = 0;
    while (parts > 0 && filled < slot_bytes) {
      const std::size_t step = std::min(from->iov_len - skipped, slot_bytes - filled);
      if (step > 0)
        copy_bytes(slot->memory.get() + filled, static_cast<const std::byte*>(from->iov_base) + skipped, step);
      filled += step;
      skipped += step;
      if (skipped < from->iov_len) break;
      ++from;
      --parts;
      skipped = 0;
    }
    std::lock_guard lock(mutex_);
    send(*slot, filled);
    if (parts == 0) events_.arm_or_wake();  // UCX may have accepted bytes that it has not sent
    done += static_cast<std::int64_t>(filled);
  }
  return done;
}

void UcxWire::send(Slot& slot, std::size_t bytes) {
  if (failed_ || bytes == 0) return;
  ucp_request_param_t param{};
  note_order();
  void* request = ucx_library().send(ep_, slot.memory.get(), bytes, &param);
  if (UCS_PTR_IS_ERR(request)) return static_cast<void>(fail(ucx_library().status_text(UCS_PTR_STATUS(request))));
  slot.request = request;
  bytes_written_ += static_cast<std::int64_t>(bytes);
}

std::string UcxWire::reason() const { return failed_ ? failure_reason_ : "the peer exited or closed the connection"; }

// --- waiting

bool UcxWire::wait_to_read() {
  std::lock_guard lock(mutex_);
  if (ended_ || failed_) return false;
  return ep_ == nullptr || (events_.arm() && !fetch());
}

// If UCX has work that triggers no event, the reactor does it between other events.
bool UcxWire::wait_to_write() {
  std::lock_guard lock(mutex_);
  if (ended_ || failed_) return false;
  if (ep_ == nullptr) return true;
  if (free_slot() != nullptr) return false;
  events_.arm_or_wake();
  return true;
}

// Once all bytes have been sent, sends their number to the peer.
void UcxWire::flush() {
  const UcxLibrary& ucx = ucx_library();
  if (flush_ == nullptr) {
    ucp_request_param_t param{};
    flush_ = ucx.ep_flush(ep_, &param);
    if (UCS_PTR_IS_ERR(flush_)) flush_ = nullptr;
  }
  if (flush_ != nullptr) {
    if (ucx.status(flush_) == UCS_INPROGRESS) return;
    ucx.free(std::exchange(flush_, nullptr));
  }
  finishing_ = false;
  [[maybe_unused]] auto sent =
      ::send(socket_.get(), &bytes_written_, sizeof bytes_written_, MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(socket_.get(), SHUT_WR);
}

void UcxWire::finish_writing() {
  std::lock_guard lock(mutex_);
  if (ep_ == nullptr || failed_) {
    shutdown(socket_.get(), SHUT_WR);
    return;
  }
  finishing_ = true;
  progress();
  if (finishing_) events_.wake();
}

void UcxWire::shut() {
  shutdown(socket_.get(), SHUT_RDWR);
  ended_.store(true, std::memory_order_release);
}

}  // namespace

bool has_ucx() { return ucx_library().load_error.empty(); }

void require_ucx() {
  require(ErrorKind::user, has_ucx(), "links over UCX need its library (Debian: libucx0): ", ucx_library().load_error);
}

std::unique_ptr<Wire> make_ucx_wire(Descriptor socket, bool same_host, const std::string& transports) {
  require_ucx();
  const bool chosen = !transports.empty() || std::getenv("UCX_TLS") != nullptr;
  return std::make_unique<UcxWire>(std::move(socket), same_host, same_host && !chosen ? local_transports : transports);
}

}  // namespace karez::comm

#else

namespace karez::comm {

bool has_ucx() { return false; }
void require_ucx() {
  fail(ErrorKind::user,
       "this build of Karez has no UCX; build it on a machine that has ucp/api/ucp.h (Debian: libucx-dev)");
}
std::unique_ptr<Wire> make_ucx_wire(Descriptor, bool, const std::string&) {
  require_ucx();
  return nullptr;
}

}  // namespace karez::comm

#endif
