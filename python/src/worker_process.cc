// Exchanges elements with a worker process over sockets and shared memory.
#include "python/src/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "karez/karez.h"

namespace karez::python {
namespace {

constexpr std::uint64_t first_region = 4096;  // of the outputs, see worker.py
constexpr std::uint8_t starting = 255;        // stands for any channel
constexpr std::uint64_t kept_bytes = 4 << 20;

// The size of the region of a channel: 16 GiB of addresses, or less if the system limits them.
std::uint64_t region_size() {
  for (std::uint64_t size = std::uint64_t{16} << 30;; size /= 2) {
    const std::uint64_t all = 4 * WorkerProcess::channels * size;
    void* memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) return munmap(memory, all), size;
    require(ErrorKind::device, size > 1 << 20,
            "no addresses for the shared memory of a worker process: ", std::strerror(errno));
  }
}

int memory_file(std::uint64_t size) {
  const int file = memfd_create("karez-data", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(size)) == 0) return file;
  const int error = errno;
  if (file >= 0) close(file);
  base::fail(ErrorKind::device, "no shared memory for a worker process: ", std::strerror(error));
}

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    require(ErrorKind::device, written > 0, "the setup of a worker process cannot be stored: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_items(std::span<const data::GroupItem> items, std::uint8_t flags, SharedRegion& region, std::string& body) {
  const auto write = [&] {
    for (const data::GroupItem& item : items) {
      RequestEntry entry;
      if ((flags & random_flag) != 0) entry.key[0] = key_word(item.key, 0), entry.key[1] = key_word(item.key, 2);
      const std::size_t begin = (body.size() + 15) / 16 * 16;
      body.resize(begin + sizeof entry);
      region.begin = write_element(item.in, region, body);
      entry.size = body.size() - begin - sizeof entry;
      std::memcpy(body.data() + begin, &entry, sizeof entry);
    }
  };
  // Objects are pickled with the interpreter's lock: get it once.
  const auto is_object = [](const data::Field& field) { return !std::holds_alternative<HostArray>(field); };
  const auto& fields = items.front().in.fields;
  if (items.size() > 1 && std::any_of(fields.begin(), fields.end(), is_object)) with_gil(write);
  else write();
}

class AwaitedProcess {
 public:
  explicit AwaitedProcess(pid_t pid) : outer_(data::awaited_process().exchange(pid)) {}
  ~AwaitedProcess() { data::awaited_process() = outer_; }
  AwaitedProcess(const AwaitedProcess&) = delete;
  AwaitedProcess& operator=(const AwaitedProcess&) = delete;

 private:
  int outer_;
};

}  // namespace

SharedMemory::SharedMemory(std::uint64_t size) : file_(memory_file(size)), size_(size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(file_);
    base::fail(ErrorKind::device, "no addresses for the shared memory of a worker process: ", std::strerror(error));
  }
  data_ = static_cast<std::byte*>(memory);
  madvise(memory, size, MADV_DONTDUMP);
}

SharedMemory::~SharedMemory() {
  munmap(data_, size_);
  close(file_);
}

void SharedMemory::trim(std::uint64_t begin, std::uint64_t end) const {
  begin += kept_bytes;
  begin -= begin % 4096;
  if (end > begin)
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(end - begin));
}

SocketPair::SocketPair() {
  require(ErrorKind::device, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0,
          "no connection to a worker process: ", std::strerror(errno));
}
SocketPair::~SocketPair() {
  for (int end : ends_)
    if (end >= 0) close(end);
}
SocketPair::SocketPair(SocketPair&& other) noexcept { std::swap(ends_, other.ends_); }
void SocketPair::close_other() { close(std::exchange(ends_[1], -1)); }
int SocketPair::release_own() { return std::exchange(ends_[0], -1); }

WorkerProcess::WorkerProcess(WorkerCommand command, std::string_view setup)
    : region_(region_size()),
      inputs_(channels * region_),
      outputs_(first_region + channels * region_) {
  outputs_.data()[0] = std::byte{starting};
  const int setup_file = memory_file(0);
  try {
    write_all(setup_file, setup);
    command.files = {requests_.other(), inputs_.file(), outputs_.file(), setup_file};
    for (int file : command.files) command.arguments.push_back(std::to_string(file));
    command.arguments.push_back(std::to_string(region_));
    for (int i = 0; i < channels; ++i) {
      channels_.push_back({SocketPair(), static_cast<std::uint64_t>(i) * region_});
      const SocketPair& replies = channels_.back().replies;
      // A reader that waits looks from time to time whether the process exists: a process that it has started may have
      // inherited its end of the connection.
      const timeval second{1, 0};
      setsockopt(replies.own(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
      command.files.push_back(replies.other());
      command.arguments.push_back(std::to_string(replies.other()));
    }
    pid_ = launch_worker(command);
  } catch (...) {
    close(setup_file);
    throw;
  }
  close(setup_file);
  requests_.close_other();
  for (Channel& channel : channels_) channel.replies.close_other();
}

WorkerProcess::~WorkerProcess() {
  if (!end_text_.empty() || getpid() != owner_) return;
  // The process ends when it reads the end of the requests.
  end_worker(pid_, channels_[0].replies.release_own());
}

bool WorkerProcess::has_ended() const {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0) return info.si_pid == pid_;
  return kill(pid_, 0) != 0;  // another part of the program has waited for it
}

bool WorkerProcess::exchange(int number, std::span<const data::GroupItem> items, std::uint8_t flags,
                             const ReadReply& read) {
  Channel& channel = channels_[static_cast<std::size_t>(number)];
  RequestHeader header{.channel = static_cast<std::uint8_t>(number), .flags = flags};
  header.count = static_cast<std::uint16_t>(items.size());
  std::string message(sizeof header, '\0'), body;
  SharedRegion region{inputs_.data(), channel.begin, region_end(number)};
  write_items(items, flags, region, body);
  std::uint64_t end = region.begin;
  header.size = body.size();
  if (body.size() > largest_message) {
    header.position = (end + 63) / 64 * 64;
    require(ErrorKind::data, header.position + body.size() <= region.end,
            "an element for a worker process may have at most ", region.end - region.begin,
            " bytes, got more; pass processes=False");
    std::memcpy(inputs_.data() + header.position, body.data(), body.size());
    end = header.position + body.size();
  } else {
    message += body;
  }
  std::memcpy(message.data(), &header, sizeof header);
  const AwaitedProcess awaited(pid_);
  while (send(requests_.own(), message.data(), message.size(), MSG_NOSIGNAL) < 0)
    if (errno != EINTR) return false;

  char reply[largest_message + 4096];
  ssize_t size = 0;
  while ((size = recv(channel.replies.own(), reply, sizeof reply, 0)) < 0) {
    if (errno != EINTR && errno != EAGAIN) return false;
    if (errno == EAGAIN && has_ended()) {
      size = recv(channel.replies.own(), reply, sizeof reply, MSG_DONTWAIT);
      if (size <= 0) return false;
      break;
    }
    base::check_interrupt();
  }
  if (size == 0) return false;
  ReplyHeader replied;
  require(ErrorKind::data, static_cast<std::size_t>(size) >= sizeof replied,
          "a worker process sent a message that is too short");
  std::memcpy(&replied, reply, sizeof replied);
  std::string_view answer(reply + sizeof replied, static_cast<std::size_t>(size) - sizeof replied);
  const std::span<const std::byte> memory(outputs_.data(), outputs_.size());
  if (replied.position != in_message) {
    require(ErrorKind::data, replied.position <= memory.size() && replied.size <= memory.size() - replied.position,
            "a worker process sent a position outside of the shared memory");
    answer = {reinterpret_cast<const char*>(memory.data()) + replied.position, replied.size};
  }
  if ((replied.flags & kept_input_flag) != 0) channel.begin = (end + 4095) / 4096 * 4096;
  else inputs_.trim(channel.begin, end);
  read(replied, answer, memory);
  return true;
}

std::string WorkerProcess::end_text() {
  std::lock_guard lock(mutex_);
  if (end_text_.empty()) end_text_ = worker_end_text(pid_);
  return end_text_;
}

std::size_t WorkerProcess::last_item() const {
  std::uint16_t item = 0;
  std::memcpy(&item, outputs_.data() + 2, sizeof item);
  return item;
}

WorkerProcess::LastWork WorkerProcess::last_work(int channel) const {
  const auto at = static_cast<std::uint8_t>(outputs_.data()[0]);
  if (at == 0) return LastWork::none;
  return at == starting || at == channel + 1 ? LastWork::this_channel : LastWork::other_channel;
}

}  // namespace karez::python
