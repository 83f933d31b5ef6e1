// Starts and ends worker processes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace karez::python {

struct WorkerCommand {
  std::vector<std::string> arguments, environment;
  std::vector<int> files;  // descriptors that the process inherits, with their numbers
};

// Starts a process, which is killed when this process ends in any way. It ignores SIGINT, reads an empty stdin, and may
// run on the CPUs of the calling thread. Its nice value is 5 above that of this process. Throws if it cannot be started.
pid_t launch_worker(const WorkerCommand& command);

// Waits on another thread until the process has ended, for a second at most, and then kills it. `socket` becomes
// readable when the process ends, and is closed.
void end_worker(pid_t pid, int socket);

// Waits for the end of a process whose sockets are closed. Returns "was killed by signal 9 (Killed)", or "ended with
// exit status 3".
std::string worker_end_text(pid_t pid);

}  // namespace karez::python
