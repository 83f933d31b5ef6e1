// A worker process and its channels: each passes some elements at a time to the process.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/element_message.h"
#include "python/src/worker_launch.h"

namespace karez::python {

// A memory without a name, which both processes map. Its pages exist once they are written.
class SharedMemory {
 public:
  explicit SharedMemory(std::uint64_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  int file() const { return file_; }
  // Frees the pages in this range, except for the first few megabytes, which the next elements probably use again.
  void trim(std::uint64_t begin, std::uint64_t end) const;

 private:
  int file_ = -1;
  std::byte* data_ = nullptr;
  std::uint64_t size_;
};

// Both ends of a connection whose messages arrive whole; they are closed when the process executes another program.
class SocketPair {
 public:
  SocketPair();
  ~SocketPair();
  SocketPair(SocketPair&& other) noexcept;
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  SocketPair& operator=(SocketPair&&) = delete;
  int own() const { return ends_[0]; }
  int other() const { return ends_[1]; }
  void close_other();
  int release_own();  // the caller closes it

 private:
  int ends_[2] = {-1, -1};
};

class WorkerProcess {
 public:
  static constexpr int channels = 2;  // one request is computed while the next one is on its way
  // `setup`: the content of the setup file (worker.py); the arguments and files are added to the command.
  WorkerProcess(WorkerCommand command, std::string_view setup);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  pid_t pid() const { return pid_; }

  // Sends elements over a channel, waits for the reply, and calls `read` with it. Returns false if the process has
  // ended. If `read` or an interrupt throws before the reply has been read, the process cannot be used any more.
  using ReadReply =
      std::function<void(const ReplyHeader& header, std::string_view body, std::span<const std::byte> memory)>;
  bool exchange(int channel, std::span<const data::GroupItem> items, std::uint8_t flags, const ReadReply& read);

  // Of a process that has ended: how, and what it was doing.
  std::string end_text();
  enum class LastWork : std::uint8_t { none, this_channel, other_channel };
  LastWork last_work(int channel) const;
  std::size_t last_item() const;  // of the request that it was computing: the number of the element

 private:
  struct Channel {
    SocketPair replies;
    std::uint64_t begin;  // of the free memory of its region for requests
  };
  bool has_ended() const;
  std::uint64_t region_end(int channel) const { return static_cast<std::uint64_t>(channel + 1) * region_; }

  std::uint64_t region_;
  SharedMemory inputs_, outputs_;
  SocketPair requests_;
  std::vector<Channel> channels_;
  const pid_t owner_ = getpid();
  pid_t pid_ = 0;
  std::mutex mutex_;
  std::string end_text_;  // empty: not known
};

}  // namespace karez::python
