// Runs the command that starts the agent as a child process, whose input and output are pipes.
#include "tools/karez/remote_agent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "karez/base/error.h"
#include "tools/karez/pipe.h"

namespace karez::tools {
namespace {

// Executes the agent in a separate process group, so that only `karez run` receives Ctrl-C, which it forwards.
[[noreturn]] void exec_agent(char** words, int in, int out, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || dup2(in, 0) < 0 || dup2(out, 1) < 0) _exit(127);
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signal(number, SIG_DFL);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  execvp(words[0], words);
  dprintf(2, "karez run: cannot start '%s': %s\n", words[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

RemoteAgent::RemoteAgent(std::string name, std::vector<std::string> words) : name_(std::move(name)) {
  auto in = pipe_pair(), out = pipe_pair();
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  process_ = fork();
  require(ErrorKind::device, process_ >= 0, "cannot create a process: ", std::strerror(errno));
  if (process_ == 0) exec_agent(pointers.data(), in[0].get(), out[1].get(), parent);
  to_ = std::move(in[1]);
  from_ = std::move(out[0]);
  fcntl(from_.get(), F_SETFL, O_NONBLOCK);
}

RemoteAgent::~RemoteAgent() {
  to_.close();
  for (int waited = 0; !reaped_ && waited < 100; ++waited) {
    if (waitpid(process_, &status_, WNOHANG) == process_) return;
    poll(nullptr, 0, 10);
  }
  if (reaped_) return;
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::string RemoteAgent::exit_description() const {
  if (!reaped_) return "closed its output";
  return WIFSIGNALED(status_) ? cat("was ended by signal ", WTERMSIG(status_))
                              : cat("ended with exit code ", WEXITSTATUS(status_));
}

void RemoteAgent::send(const RunFrame& frame) {
  const std::string text = encode(frame);
  std::string_view unsent = text;
  while (to_ && !unsent.empty()) {
    auto n = write(to_.get(), unsent.data(), unsent.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) to_.close();  // `receive` detects that the agent has ended
    else unsent.remove_prefix(static_cast<std::size_t>(n));
  }
}

void RemoteAgent::add_to(std::vector<pollfd>& polled) const {
  if (from_) polled.push_back({from_.get(), POLLIN, 0});
}

std::vector<RunFrame> RemoteAgent::receive() {
  std::array<char, 1 << 16> bytes;
  std::vector<RunFrame> out;
  while (from_) {
    auto n = read(from_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    if (n > 0) {
      bytes_.append(bytes.data(), static_cast<std::size_t>(n));
      if (bytes_.size() > (1u << 20)) break;  // process the received bytes first
    } else {
      from_.close();
      closed_ = true;
      for (int waited = 0; !reaped_ && waited < 50; ++waited) {  // for its exit status
        reaped_ = waitpid(process_, &status_, WNOHANG) == process_;
        if (!reaped_) poll(nullptr, 0, 10);
      }
    }
  }
  try {
    if (!port_ && !(port_ = take_hello(bytes_))) return out;
    while (auto frame = decode_frame(bytes_)) out.push_back(std::move(*frame));
  } catch (const Error& error) { fail(ErrorKind::peer, "host ", name_, ": ", error.what()); }
  return out;
}

}  // namespace karez::tools
