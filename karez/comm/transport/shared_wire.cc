// The shared wire: rings in a sealed memfd. A side that may have to wake the other side writes its index and then reads
// the other side's flag; a side that goes to sleep sets its flag and then reads the other side's index. So at least one
// of the two notices the other.
#include "karez/comm/transport/shared_wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::comm {

// The indices of one direction. They only grow; a position in the ring is an index modulo the ring's size.
struct SharedWire::RingHeader {
  alignas(64) std::atomic<std::uint64_t> head;  // written by the writer
  alignas(64) std::atomic<std::uint64_t> tail;  // written by the reader
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
};

namespace {
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
constexpr std::uint64_t magic = 0x316d687a6572616bull;  // marks the message that carries a segment
constexpr std::size_t ring_header_bytes = 4096;         // a page for each direction
constexpr std::size_t max_ring_bytes = std::size_t{1} << 30;
// A ring is filled and emptied in this number of steps, so that one side copies in while the other side copies out.
constexpr std::size_t steps = 8;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct Hello {
  std::uint64_t magic, ring_bytes;
};

std::size_t segment_bytes(std::size_t ring_bytes) { return 2 * (ring_header_bytes + ring_bytes); }

void* map(int segment, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
  require(ErrorKind::device, memory != MAP_FAILED, "cannot map shared memory of ", bytes,
          " bytes: ", std::strerror(errno));
  return memory;
}

// Copies at most `max_bytes` bytes between a ring and parts; returns the number of bytes copied.
template <class Copy>
std::int64_t copy_parts(const iovec* parts, int count, std::uint64_t index, std::size_t ring_bytes,
                        std::uint64_t max_bytes, Copy copy) {
  std::uint64_t done = 0;
  for (int i = 0; i < count && done < max_bytes; ++i) {
    auto* memory = static_cast<std::byte*>(parts[i].iov_base);
    for (std::size_t left = std::min<std::uint64_t>(parts[i].iov_len, max_bytes - done); left > 0;) {
      std::size_t position = (index + done) & (ring_bytes - 1), step = std::min(left, ring_bytes - position);
      copy(position, memory, step);
      memory += step;
      left -= step;
      done += step;
    }
  }
  return static_cast<std::int64_t>(done);
}
}  // namespace

SharedWire::SharedWire(Descriptor socket, void* memory, std::size_t ring_bytes, bool creator)
    : socket_(std::move(socket)),
      memory_(memory),
      ring_bytes_(ring_bytes) {
  auto* base = static_cast<std::byte*>(memory);
  auto* first = reinterpret_cast<RingHeader*>(base);
  auto* second = reinterpret_cast<RingHeader*>(base + ring_header_bytes);
  std::byte *first_ring = base + 2 * ring_header_bytes, *second_ring = first_ring + ring_bytes;
  out_ = creator ? first : second;
  in_ = creator ? second : first;
  out_ring_ = creator ? first_ring : second_ring;
  in_ring_ = creator ? second_ring : first_ring;
}

SharedWire::~SharedWire() { munmap(memory_, segment_bytes(ring_bytes_)); }

std::unique_ptr<SharedWire> SharedWire::create(Descriptor socket, std::size_t ring_bytes) {
  bool valid = ring_bytes >= ring_header_bytes && ring_bytes <= max_ring_bytes && (ring_bytes & (ring_bytes - 1)) == 0;
  require(valid, "ring size is ", ring_bytes, " bytes; it must be a power of two from ", ring_header_bytes, " to ",
          max_ring_bytes);
  Descriptor segment(memfd_create("karez-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bool created = segment && ftruncate(segment.get(), static_cast<off_t>(segment_bytes(ring_bytes))) == 0 &&
                 fcntl(segment.get(), F_ADD_SEALS, seals) == 0;
  require(ErrorKind::device, created, "cannot create a shared memory segment: ", std::strerror(errno));
  std::unique_ptr<SharedWire> out(
      new SharedWire(std::move(socket), map(segment.get(), segment_bytes(ring_bytes)), ring_bytes, true));

  Hello hello{magic, ring_bytes};
  iovec part{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  int descriptor = segment.get();
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  ssize_t sent = 0;
  do sent = sendmsg(out->socket_.get(), &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  require(ErrorKind::peer, sent == static_cast<ssize_t>(sizeof hello),
          "cannot send a shared memory segment: ", std::strerror(errno));
  return out;
}

namespace {

void await_readable(int socket, Seconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  pollfd ready{socket, POLLIN, 0};
  int ready_count = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    ready_count = poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
  } while (ready_count < 0 && errno == EINTR);
  require(ErrorKind::peer, ready_count == 1, "no shared memory segment arrived");
}

}  // namespace

std::unique_ptr<SharedWire> SharedWire::attach(Descriptor socket, Seconds timeout) {
  await_readable(socket.get(), timeout);
  Hello hello{};
  iovec part{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received = 0;
  do received = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  Descriptor segment;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); received > 0 && head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
      continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    segment = Descriptor(descriptor);
  }
  bool valid = received == static_cast<ssize_t>(sizeof hello) && hello.magic == magic && segment &&
               hello.ring_bytes >= ring_header_bytes && hello.ring_bytes <= max_ring_bytes &&
               (hello.ring_bytes & (hello.ring_bytes - 1)) == 0;
  require(ErrorKind::peer, valid, "the message contains no shared memory segment");
  struct stat status {};
  bool complete = fstat(segment.get(), &status) == 0 &&
                  status.st_size == static_cast<off_t>(segment_bytes(hello.ring_bytes)) &&
                  (fcntl(segment.get(), F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  require(ErrorKind::peer, complete, "the shared memory segment may shrink, or its size is not the announced one");
  void* memory = map(segment.get(), segment_bytes(hello.ring_bytes));
  return std::unique_ptr<SharedWire>(new SharedWire(std::move(socket), memory, hello.ring_bytes, false));
}

std::int64_t SharedWire::read(const iovec* into, int parts) {
  bool closed = closed_.load(std::memory_order_acquire);  // read before the head: data written before the end counts
  std::uint64_t available = in_->head.load(std::memory_order_acquire) - tail_;
  if (available > ring_bytes_) {
    invalid_.store(true);
    return -1;
  }
  if (available == 0) return closed ? -1 : 0;
  std::int64_t n = copy_parts(into, parts, tail_, ring_bytes_, std::min<std::uint64_t>(available, ring_bytes_ / steps),
                              [&](std::size_t position, std::byte* memory, std::size_t bytes) {
                                copy_bytes(memory, in_ring_ + position, bytes);
                              });
  tail_ += static_cast<std::uint64_t>(n);
  in_->tail.store(tail_, std::memory_order_seq_cst);
  bool half_empty = available - static_cast<std::uint64_t>(n) <= ring_bytes_ / 2;  // avoids a wakeup for every step
  if (half_empty && in_->writer_waits.load(std::memory_order_seq_cst) != 0 && in_->writer_waits.exchange(0) != 0)
    wake_peer();
  return n;
}

std::int64_t SharedWire::write(const iovec* from, int parts) {
  if (closed_.load(std::memory_order_acquire)) return -1;
  std::uint64_t used = head_ - out_->tail.load(std::memory_order_acquire);
  if (used > ring_bytes_) {
    invalid_.store(true);
    return -1;
  }
  std::int64_t n =
      copy_parts(from, parts, head_, ring_bytes_, std::min<std::uint64_t>(ring_bytes_ - used, ring_bytes_ / steps),
                 [&](std::size_t position, const std::byte* memory, std::size_t bytes) {
                   copy_bytes(out_ring_ + position, memory, bytes);
                 });
  if (n == 0) return 0;
  head_ += static_cast<std::uint64_t>(n);
  out_->head.store(head_, std::memory_order_seq_cst);
  if (out_->reader_sleeps.load(std::memory_order_seq_cst) != 0 && out_->reader_sleeps.exchange(0) != 0) wake_peer();
  return n;
}

std::string SharedWire::reason() const {
  return invalid_.load() ? "the shared memory is corrupted" : "the peer exited or closed the connection";
}

bool SharedWire::wait_to_read() {
  in_->reader_sleeps.store(1, std::memory_order_seq_cst);
  if (in_->head.load(std::memory_order_seq_cst) == tail_ && !closed_.load(std::memory_order_acquire)) return true;
  in_->reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

bool SharedWire::wait_to_write() {
  std::uint64_t head = out_->head.load(std::memory_order_relaxed);  // not head_: another thread may be writing
  out_->writer_waits.store(1, std::memory_order_seq_cst);
  return head - out_->tail.load(std::memory_order_seq_cst) >= ring_bytes_ && !closed_.load(std::memory_order_acquire);
}

std::uint32_t SharedWire::events(bool) const { return EPOLLIN | EPOLLRDHUP | EPOLLET; }

void SharedWire::set_busy_poll(bool reader_polls) {
  if (reader_polls) in_->reader_sleeps.store(0, std::memory_order_relaxed);
}

void SharedWire::wake_peer() {
  std::byte any{};
  // If the socket is full, enough wakeups are pending.
  [[maybe_unused]] auto sent = send(socket_.get(), &any, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void SharedWire::handle_wakeup() {
  std::byte wakeups[256];
  while (true) {
    auto n = recv(socket_.get(), wakeups, sizeof wakeups, MSG_DONTWAIT);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n == 0 || errno != EAGAIN) closed_.store(true, std::memory_order_release);
    return;
  }
}

void SharedWire::finish_writing() { shut(); }

void SharedWire::shut() {
  shutdown(socket_.get(), SHUT_RDWR);
  closed_.store(true, std::memory_order_release);
}

}  // namespace karez::comm
