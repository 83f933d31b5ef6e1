// Represents the agent on another host, which `karez run` starts by ssh or a replacement of ssh. The two exchange
// frames.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "karez/comm/transport/socket.h"
#include "tools/karez/run_frames.h"
#include "tools/namespace.h"

namespace karez::tools {

class RemoteAgent {
 public:
  // `words` is the local command: "ssh", "alpha", "/opt/karez", "agent".
  RemoteAgent(std::string name, std::vector<std::string> words);
  ~RemoteAgent();  // closes the input of the agent, which then has a second to kill its ranks
  RemoteAgent(const RemoteAgent&) = delete;
  RemoteAgent& operator=(const RemoteAgent&) = delete;

  const std::string& name() const { return name_; }
  std::optional<int> port() const { return port_; }  // a free port of that host, once the agent has started
  bool closed() const { return closed_; }            // the agent has ended and sends no more frames
  std::string exit_description() const;              // "ended with exit code 255"

  void send(const RunFrame& frame);
  void add_to(std::vector<pollfd>& polled) const;
  std::vector<RunFrame> receive();  // throws Error (kind peer) with the host's name on invalid frames

 private:
  std::string name_;
  pid_t process_ = -1;
  Descriptor to_, from_;
  std::string bytes_;
  std::optional<int> port_;
  bool closed_ = false, reaped_ = false;
  int status_ = 0;
};

}  // namespace karez::tools
