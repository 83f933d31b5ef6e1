// Reads signals from a signalfd.
#include "tools/karez/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "karez/base/error.h"

namespace karez::tools {
namespace {
sigset_t handled_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&out, number);
  return out;
}
}  // namespace

Signals::Signals() {
  sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  descriptor_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  require(ErrorKind::device, static_cast<bool>(descriptor_), "cannot create a signalfd: ", std::strerror(errno));
}

Signals::~Signals() {
  sigset_t set = handled_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

std::optional<int> Signals::take() {
  signalfd_siginfo info{};
  while (true) {
    auto n = read(descriptor_.get(), &info, sizeof info);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }
}

}  // namespace karez::tools
