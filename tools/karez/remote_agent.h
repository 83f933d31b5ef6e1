// Another host's agent, as `karez run` sees it: started by ssh or what stands for it, spoken to in frames.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "karez/comm/socket.h"
#include "tools/karez/run_frames.h"
#include "tools/namespace.h"

namespace karez::tools {

class RemoteAgent {
 public:
  // `words` is what to run here: "ssh", "alpha", "/opt/karez", "agent".
  RemoteAgent(std::string name, std::vector<std::string> words);
  ~RemoteAgent();  // its input ends; it has a second to kill its ranks
  RemoteAgent(const RemoteAgent&) = delete;
  RemoteAgent& operator=(const RemoteAgent&) = delete;

  const std::string& name() const { return name_; }
  std::optional<int> port() const { return port_; }  // that is free there, once it has begun
  bool closed() const { return closed_; }            // it is gone: no frames come any more
  std::string exit_description() const;              // it went: "ended with exit code 255"

  void send(const RunFrame& frame);
  void add_to(std::vector<pollfd>& polled) const;
  std::vector<RunFrame> receive();  // what has come; throws Error (kind peer) with its name on what is none of ours

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
