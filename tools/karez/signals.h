// Delivers the signals of this process through a descriptor that poll can wait for, instead of signal handlers.
#pragma once

#include <optional>

#include "karez/comm/transport/socket.h"
#include "tools/namespace.h"

namespace karez::tools {

// While an object exists, SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked and SIGPIPE is ignored. Construct it while
// the process has one thread.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int descriptor() const { return descriptor_.get(); }
  std::optional<int> take();  // the next pending signal

 private:
  Descriptor descriptor_;
};

}  // namespace karez::tools
