// Starts the ranks of one host as processes, binds them to cores, reads their output and ends them.
//
// Each rank is a separate process group, so that its children (such as the program of a shell) end with it. When this
// process ends, the ranks end too: the kernel kills a rank when its parent ends, and a reaper, a small process that
// holds one end of a pipe to this process, kills the groups when the pipe closes.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/comm/transport/socket.h"
#include "karez/device/cpu_budget.h"
#include "tools/namespace.h"

namespace karez::tools {

struct RankStart {
  int rank = 0;
  std::vector<std::string> words;                              // the program, searched in PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables;  // in addition to the variables of this process
  std::vector<int> cpus;  // the CPUs on which the rank may run; empty: those of this process
};

class RankGroup {
 public:
  using Output = std::function<void(int rank, bool error, std::string_view bytes)>;
  using OutputFilter = std::function<bool(int rank, bool error)>;
  static bool all(int, bool) { return true; }
  using Ended = std::function<void(int rank, int status)>;  // status of waitpid; called after all output of the rank

  RankGroup();   // starts the reaper; this process must have only one thread
  ~RankGroup();  // kills the ranks and waits for them
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void start(const RankStart& start);  // throws Error (kind name) if the program cannot be executed
  void signal(int signal);             // sends it to all ranks and their children, and continues those that are stopped
  int running() const;
  int process_of(int rank) const;  // the process id

  // Adds the descriptors of the output streams that pass the filter; the end of a rank is reported by SIGCHLD.
  void add_to(std::vector<pollfd>& polled, const OutputFilter& filter = all) const;
  // Reads the available output. The output of a rank that has ended is read even if it does not pass the filter.
  void collect(const Output& output, const Ended& ended, const OutputFilter& filter = all);

 private:
  struct Rank {
    int rank = 0;
    pid_t process = -1;
    bool running = true, group = true;  // group: the process group of the rank has a process
    Descriptor streams[2];              // standard output and standard error
  };
  void release_group(pid_t group);  // the group has ended, so the reaper need not kill it
  void read_from(Rank& rank, const Output& output, const OutputFilter& filter, int max_reads);

  std::list<Rank> ranks_;
  Descriptor reaper_;  // the pipe for ids of groups to kill
  pid_t reaper_process_ = -1;
};

// Returns the cores of each rank: disjoint lists that together contain all cores. With more ranks than cores the lists
// are empty, and no rank is bound.
std::vector<std::vector<int>> cores_of_ranks(const CpuBudget& budget, int ranks);

}  // namespace karez::tools
