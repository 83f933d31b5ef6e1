// One UCX worker per wire, guarded by a lock: reader and writer may be two threads, and either makes progress in both
// directions.
//
// Events: the reactor watches one epoll with the socket, the worker's descriptor and an eventfd of the wire. A thread
// that waits arms the worker; another thread that makes progress afterwards may consume the awaited event, and then
// signals the eventfd instead.
#include "karez/comm/ucx_wire.h"
#include "karez/comm/namespace.h"

#include "karez/base/error.h"

#if __has_include(<ucp/api/ucp.h>)

#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "karez/base/copy_bytes.h"

namespace karez::comm {
namespace {

struct Library {
  decltype(&ucp_init_version) init;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) address;
  decltype(&ucp_worker_release_address) release_address;
  decltype(&ucp_worker_get_efd) descriptor;
  decltype(&ucp_worker_arm) arm;
  decltype(&ucp_worker_progress) progress;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close;
  decltype(&ucp_ep_flush_nbx) ep_flush;
  decltype(&ucp_stream_send_nbx) send;
  decltype(&ucp_stream_recv_data_nb) receive;
  decltype(&ucp_stream_data_release) release;
  decltype(&ucp_request_check_status) status;
  decltype(&ucp_request_free) free;
  decltype(&ucs_status_string) text;
  std::string missing;  // why the library is unusable

  Library() {
    setenv("UCX_HANDLE_ERRORS", "none", 0);  // otherwise it handles the process' signals
    void* handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      missing = dlerror();
      return;
    }
    auto find = [&](auto& call, const char* name) {
      call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(handle, name));
      if (call == nullptr) missing = cat("libucp.so.0 has no ", name);
    };
    find(init, "ucp_init_version");
    find(cleanup, "ucp_cleanup");
    find(config_read, "ucp_config_read");
    find(config_modify, "ucp_config_modify");
    find(config_release, "ucp_config_release");
    find(worker_create, "ucp_worker_create");
    find(worker_destroy, "ucp_worker_destroy");
    find(address, "ucp_worker_get_address");
    find(release_address, "ucp_worker_release_address");
    find(descriptor, "ucp_worker_get_efd");
    find(arm, "ucp_worker_arm");
    find(progress, "ucp_worker_progress");
    find(ep_create, "ucp_ep_create");
    find(ep_close, "ucp_ep_close_nbx");
    find(ep_flush, "ucp_ep_flush_nbx");
    find(send, "ucp_stream_send_nbx");
    find(receive, "ucp_stream_recv_data_nb");
    find(release, "ucp_stream_data_release");
    find(status, "ucp_request_check_status");
    find(free, "ucp_request_free");
    find(text, "ucs_status_string");
  }

  void require(ucs_status_t status, std::string_view what) const {
    base::require(ErrorKind::device, status == UCS_OK, "UCX cannot ", what, ": ", text(status));
  }
};

const Library& library() {
  static const Library found;
  return found;
}

// One for all wires of a process with the same transports; destroyed with the last of them.
class Context {
 public:
  explicit Context(const std::string& transports) {
    ucp_config_t* config = nullptr;
    library().require(library().config_read(nullptr, nullptr, &config), "read its configuration");
    ucs_status_t status = transports.empty() ? UCS_OK : library().config_modify(config, "TLS", transports.c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP;
    if (status == UCS_OK) status = library().init(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    library().config_release(config);
    library().require(status, "start");
  }
  ~Context() { library().cleanup(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ucp_context_h get() const { return context_; }

  static std::shared_ptr<Context> shared(const std::string& transports) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<Context>> made;
    std::lock_guard lock(mutex);
    auto out = made[transports].lock();
    if (out == nullptr) made[transports] = out = std::make_shared<Context>(transports);
    return out;
  }

 private:
  ucp_context_h context_ = nullptr;
};

// ThreadSanitizer cannot see that the send of one end in this process happens before the receive of the other.
#if defined(__SANITIZE_THREAD__)
std::atomic<int> passed{0};
void note_order() { passed.fetch_add(1, std::memory_order_acq_rel); }
#else
void note_order() {}
#endif

struct Hello {
  std::uint64_t magic, bytes;
};
constexpr std::uint64_t magic = 0x317863757a72616bull;  // marks the message that carries an address
constexpr std::size_t max_address_bytes = 64 << 10;
constexpr std::size_t slot_bytes = 256 << 10;
constexpr std::chrono::seconds close_timeout{1};
constexpr const char* within_host = "self,shm";  // it opens no listening socket

class UcxWire : public Wire {
 public:
  UcxWire(Descriptor socket, bool same_host, const std::string& transports);
  ~UcxWire() override;

  std::int64_t read(const iovec* into, int parts) override;
  std::int64_t write(const iovec* from, int parts) override;
  std::string reason() const override;
  bool wait_to_read() override;
  bool wait_to_write() override;
  int descriptor() const override { return events_.get(); }
  std::uint32_t events(bool) const override { return EPOLLIN | EPOLLET; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override;
  void finish_writing() override;
  bool has_recent_ack(Seconds within) const override { return has_recent_tcp_ack(socket_.get(), within); }
  void shut() override;

 private:
  // A part of the written bytes, until UCX has sent it.
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    void* request = nullptr;
  };

  void send_address();
  void parse_socket_data(const std::byte* from, std::size_t bytes);
  void connect();
  bool damaged(const std::string& why);
  // With the lock held.
  void progress();
  bool fetch();
  Slot* free_slot();
  void send(Slot& slot, std::size_t bytes);
  void flush();
  bool arm();
  void arm_or_wake();
  void wake_reactor();

  const bool same_host_;  // then UCX does not check for failures, which its shared memory does not support
  Descriptor socket_, events_, wake_event_;
  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  int worker_events_ = -1;
  std::mutex mutex_;  // guards the worker and the following members
  ucp_ep_h ep_ = nullptr;
  std::array<Slot, 4> slots_;
  std::int64_t written_ = 0;
  bool armed_ = false, finishing_ = false;
  void* flush_ = nullptr;
  std::string why_;  // not empty: why the wire failed

  char* data_ = nullptr;  // data that arrived and is not fully read; used by the reader
  std::size_t data_bytes_ = 0, data_at_ = 0;
  std::int64_t read_ = 0;
  std::vector<std::byte> inbox_;  // bytes from the socket; used by the reactor
  std::atomic<std::int64_t> peer_bytes_written_{-1};
  std::atomic<bool> ended_{false}, broken_{false};
};

UcxWire::UcxWire(Descriptor socket, bool same_host, const std::string& transports)
    : same_host_(same_host),
      socket_(std::move(socket)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      context_(Context::shared(transports)) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  library().require(library().worker_create(context_->get(), &params, &worker_), "create a worker");
  library().require(library().descriptor(worker_, &worker_events_), "report events with these transports");
  for (int descriptor : {socket_.get(), wake_event_.get(), worker_events_}) {
    epoll_event event{};
    event.events = descriptor == socket_.get() ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
    const bool added = epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
    require(ErrorKind::device, added, "epoll: ", std::strerror(errno));
  }
  send_address();
}

UcxWire::~UcxWire() {
  const Library& ucx = library();
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

// Sends this worker's UCX address. The address is short and the first data on the socket, so the kernel accepts it in
// one call.
void UcxWire::send_address() {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  library().require(library().address(worker_, &address, &bytes), "return its address");
  Hello hello{magic, bytes};
  iovec parts[2] = {{&hello, sizeof hello}, {address, bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  auto sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  library().release_address(worker_, address);
  require(ErrorKind::peer, sent == static_cast<ssize_t>(sizeof hello + bytes),
          "cannot send the address of UCX: ", std::strerror(errno));
}

// --- data from the socket

void UcxWire::handle_wakeup() {
  epoll_event seen[4];
  [[maybe_unused]] int count = epoll_wait(events_.get(), seen, 4, 0);  // later data triggers an event
  std::uint64_t wakeups = 0;
  [[maybe_unused]] auto drained = ::read(wake_event_.get(), &wakeups, sizeof wakeups);
  {
    std::lock_guard lock(mutex_);
    armed_ = false;
  }
  std::byte buffer[4096];
  bool open = true;
  while (open) {
    auto n = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) parse_socket_data(buffer, static_cast<std::size_t>(n));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) open = false;
    else if (errno == EAGAIN) break;
  }
  std::lock_guard lock(mutex_);
  progress();
  if (finishing_) arm_or_wake();
  if (!open) ended_.store(true, std::memory_order_release);
}

// Parses data from the socket: first a hello message with the peer's UCX address; at the end, if the peer closes
// cleanly, the number of bytes that it has written.
void UcxWire::parse_socket_data(const std::byte* from, std::size_t bytes) {
  inbox_.insert(inbox_.end(), from, from + bytes);
  if (ep_ == nullptr) {
    Hello hello{};
    if (inbox_.size() < sizeof hello) return;
    std::memcpy(&hello, inbox_.data(), sizeof hello);
    if (hello.magic != magic || hello.bytes > max_address_bytes || hello.bytes == 0)
      return static_cast<void>(damaged("the message contains no UCX address"));
    if (inbox_.size() < sizeof hello + hello.bytes) return;
    connect();
    inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(sizeof hello + hello.bytes));
  }
  if (inbox_.size() < sizeof(std::int64_t)) return;
  std::int64_t bytes_written = 0;
  std::memcpy(&bytes_written, inbox_.data(), sizeof bytes_written);
  peer_bytes_written_.store(bytes_written, std::memory_order_release);
}

void UcxWire::connect() {
  std::lock_guard lock(mutex_);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(inbox_.data() + sizeof(Hello));
  params.err_mode = same_host_ ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = this;
  params.err_handler.cb = [](void* wire, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxWire*>(wire)->damaged(library().text(status));
  };
  if (auto status = library().ep_create(worker_, &params, &ep_); status != UCS_OK) {
    ep_ = nullptr;
    damaged(cat("UCX cannot connect to the peer: ", library().text(status)));
  }
}

// Call with the lock held. An invalid hello is the exception: no other thread uses the wire yet.
bool UcxWire::damaged(const std::string& why) {
  if (why_.empty()) why_ = ended_ ? "the process ended or closed the connection" : why;
  broken_.store(true, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);
  return false;
}

// --- moving bytes

// Makes UCX progress once. Received data stays in UCX's buffers, so a reader consumes those first (fetch).
void UcxWire::progress() {
  const unsigned moved = library().progress(worker_);
  for (Slot& slot : slots_) {
    if (slot.request == nullptr) continue;
    const ucs_status_t status = library().status(slot.request);
    if (status == UCS_INPROGRESS) continue;
    library().free(std::exchange(slot.request, nullptr));
    if (status != UCS_OK) damaged(library().text(status));
  }
  if (finishing_) flush();
  if (moved > 0 && armed_) wake_reactor();
}

// Whether data_ holds data to read.
bool UcxWire::fetch() {
  if (data_ != nullptr) return true;
  if (ep_ == nullptr || broken_) return false;
  std::size_t bytes = 0;
  void* data = library().receive(ep_, &bytes);
  if (data == nullptr) return false;
  if (UCS_PTR_IS_ERR(data)) return damaged(library().text(UCS_PTR_STATUS(data)));
  note_order();
  data_ = static_cast<char*>(data);
  data_bytes_ = bytes;
  data_at_ = 0;
  return true;
}

std::int64_t UcxWire::read(const iovec* into, int parts) {
  const bool ended = ended_.load(std::memory_order_acquire);  // read first: data written before the end counts
  {
    std::lock_guard lock(mutex_);
    if (!fetch()) progress();
    if (!fetch()) {
      const std::int64_t wrote = peer_bytes_written_.load(std::memory_order_acquire);
      return broken_ || (ended && (wrote < 0 || read_ >= wrote)) ? -1 : 0;
    }
  }
  std::int64_t done = 0;
  for (int i = 0; i < parts && data_at_ < data_bytes_; ++i) {
    const std::size_t step = std::min(into[i].iov_len, data_bytes_ - data_at_);
    copy_bytes(into[i].iov_base, data_ + data_at_, step);
    data_at_ += step;
    done += static_cast<std::int64_t>(step);
  }
  read_ += done;
  if (data_at_ < data_bytes_) return done;
  std::lock_guard lock(mutex_);
  library().release(ep_, std::exchange(data_, nullptr));
  return done;
}

UcxWire::Slot* UcxWire::free_slot() {
  for (Slot& slot : slots_)
    if (slot.request == nullptr) return &slot;
  return nullptr;
}

std::int64_t UcxWire::write(const iovec* from, int parts) {
  std::int64_t done = 0;
  std::size_t skipped = 0;  // of the first part
  while (parts > 0) {
    Slot* slot = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (broken_ || ended_) return done > 0 ? done : -1;
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
    if (parts == 0) arm_or_wake();  // UCX may have accepted bytes that it has not sent
    done += static_cast<std::int64_t>(filled);
  }
  return done;
}

void UcxWire::send(Slot& slot, std::size_t bytes) {
  if (broken_ || bytes == 0) return;
  ucp_request_param_t param{};
  note_order();
  void* request = library().send(ep_, slot.memory.get(), bytes, &param);
  if (UCS_PTR_IS_ERR(request)) return static_cast<void>(damaged(library().text(UCS_PTR_STATUS(request))));
  slot.request = request;
  written_ += static_cast<std::int64_t>(bytes);
}

std::string UcxWire::reason() const { return broken_ ? why_ : "the process ended or closed the connection"; }

// --- waiting

// Whether an event will come. It is not armed if an event is pending already, or if UCX has work without an event.
bool UcxWire::arm() {
  armed_ = library().arm(worker_) == UCS_OK;
  pollfd at{worker_events_, POLLIN, 0};
  if (armed_ && poll(&at, 1, 0) != 0) armed_ = false;  // a pending event triggers no new edge
  return armed_;
}

// Makes sure that a thread calls again.
void UcxWire::arm_or_wake() {
  if (!arm()) wake_reactor();
}

void UcxWire::wake_reactor() {
  armed_ = false;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_event_.get(), &one, sizeof one);
}

bool UcxWire::wait_to_read() {
  std::lock_guard lock(mutex_);
  if (ended_ || broken_) return false;
  return ep_ == nullptr || (arm() && !fetch());
}

// If there is no event to wait for but more work, the reactor does it between other events.
bool UcxWire::wait_to_write() {
  std::lock_guard lock(mutex_);
  if (ended_ || broken_) return false;
  if (ep_ == nullptr) return true;
  if (free_slot() != nullptr) return false;
  arm_or_wake();
  return true;
}

// Once all bytes are sent, sends their number to the peer.
void UcxWire::flush() {
  const Library& ucx = library();
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
  [[maybe_unused]] auto sent = ::send(socket_.get(), &written_, sizeof written_, MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(socket_.get(), SHUT_WR);
}

void UcxWire::finish_writing() {
  std::lock_guard lock(mutex_);
  if (ep_ == nullptr || broken_) {
    shutdown(socket_.get(), SHUT_WR);
    return;
  }
  finishing_ = true;
  progress();
  if (finishing_) wake_reactor();
}

void UcxWire::shut() {
  shutdown(socket_.get(), SHUT_RDWR);
  ended_.store(true, std::memory_order_release);
}

}  // namespace

bool has_ucx() { return library().missing.empty(); }

void require_ucx() {
  require(ErrorKind::user, has_ucx(), "links over UCX need its library (Debian: libucx0): ", library().missing);
}

std::unique_ptr<Wire> make_ucx_wire(Descriptor socket, bool same_host, const std::string& transports) {
  require_ucx();
  const bool chosen = !transports.empty() || std::getenv("UCX_TLS") != nullptr;
  return std::make_unique<UcxWire>(std::move(socket), same_host, same_host && !chosen ? within_host : transports);
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
