// Creates a pipe whose ends are not inherited by started programs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "karez/base/error.h"
#include "karez/comm/transport/socket.h"
#include "tools/namespace.h"

namespace karez::tools {

// Returns the end to read from and the end to write to.
inline std::array<comm::Descriptor, 2> pipe_pair() {
  int ends[2];
  const bool created = pipe2(ends, O_CLOEXEC) == 0;
  base::require(base::ErrorKind::device, created, "cannot create a pipe: ", std::strerror(errno));
  return {comm::Descriptor(ends[0]), comm::Descriptor(ends[1])};
}

}  // namespace karez::tools
