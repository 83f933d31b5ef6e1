// karez agent: the process that `karez run` starts on another host. It starts the ranks of that host, forwards their
// output and exit status, and ends with them.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "karez/base/error.h"
#include "karez/comm/rendezvous/launcher.h"
#include "tools/karez/commands.h"
#include "tools/karez/run_frames.h"
#include "tools/karez/run_ranks.h"
#include "tools/karez/signals.h"

namespace karez::tools {
namespace {

class Agent {
 public:
  int run() {
    write_all(hello_line(comm::free_ports()));
    while (connected_ && !(started_ && group_.running() == 0)) {
      std::vector<pollfd> polled{{0, POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
      group_.add_to(polled);
      poll(polled.data(), polled.size(), -1);
      while (auto signal = signals_.take())
        if (*signal != SIGCHLD) connected_ = false;
      group_.collect(
          [&](int rank, bool error, std::string_view bytes) {
            send_frame(error ? Kind::errors : Kind::output, rank, std::string(bytes));
          },
          [&](int rank, int status) { send_frame(Kind::ended, rank, std::to_string(status)); });
      if (polled[0].revents != 0) receive();
    }
    return connected_ ? 0 : exit_code(ErrorKind::peer);  // the destructor of the group kills the ranks
  }

 private:
  using Kind = RunFrame::Kind;

  void send_frame(Kind kind, int number, std::string bytes) {
    write_all(encode(RunFrame{kind, number, std::move(bytes)}));
  }

  void write_all(std::string_view text) {
    while (!text.empty() && connected_) {
      auto n = write(1, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) connected_ = false;
      else text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void receive() {
    std::array<char, 1 << 12> bytes;
    auto n = read(0, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      connected_ = false;
      return;
    }
    bytes_.append(bytes.data(), static_cast<std::size_t>(n));
    while (auto frame = decode_frame(bytes_)) {
      if (frame->kind == Kind::signal) group_.signal(frame->number);
      if (frame->kind == Kind::job) begin(decode_job(frame->bytes));
    }
  }

  void begin(const RunJob& job) {
    require(ErrorKind::peer, !started_, "the agent already has a job");
    try {
      start_ranks(group_, job);
    } catch (const Error& error) { return send_frame(Kind::refused, 0, error.what()); }
    started_ = true;
    for (int rank = job.first_rank; rank < job.first_rank + job.local_ranks; ++rank)
      send_frame(Kind::started, rank, name_of_rank(group_, rank));
  }

  Signals signals_;
  RankGroup group_;
  std::string bytes_;
  bool connected_ = true, started_ = false;
};

}  // namespace

Command agent_command() {
  return {"agent", "Started by `karez run` on other hosts; not for direct use.", {}, [] { return Agent().run(); }, {}};
}

}  // namespace karez::tools
