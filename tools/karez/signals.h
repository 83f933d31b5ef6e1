// Signals of this process as a descriptor to wait at, instead of calls out of nowhere.
#pragma once

#include <optional>

#include "karez/comm/socket.h"
#include "tools/namespace.h"

namespace karez::tools {

// SIGINT, SIGTERM, SIGHUP and SIGCHLD; SIGPIPE is ignored. While it lives; to be made while the process has one thread.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int descriptor() const { return descriptor_.get(); }
  std::optional<int> take();  // the next that has come

 private:
  Descriptor descriptor_;
};

}  // namespace karez::tools
