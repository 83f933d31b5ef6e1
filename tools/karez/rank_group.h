// The ranks of one host as processes: started, bound, listened to, ended. When this process dies, so do they.
//
// Each rank is a process group of its own, so that what a rank starts (a shell's program) ends with it. Three things
// end them: signals to the groups; the kernel, which kills a rank when its parent dies; and a keeper, a small process
// that holds the end of a pipe of ours, kills the groups when that closes, and ends.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/comm/socket.h"
#include "karez/device/cpu_budget.h"
#include "tools/namespace.h"

namespace karez::tools {

struct RankStart {
  int rank = 0;
  std::vector<std::string> words;                              // the program, found by PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables;  // beside those of this process
  std::vector<int> cpus;                                       // it may run on; none: wherever this process may
};

class RankGroup {
 public:
  using Output = std::function<void(int rank, bool error, std::string_view bytes)>;
  using OutputFilter = std::function<bool(int rank, bool error)>;
  static bool all(int, bool) { return true; }
  using Ended = std::function<void(int rank, int status)>;  // of waitpid; after all that it printed

  RankGroup();  // this process has one thread
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void start(const RankStart& start);  // throws Error (kind name) where there is no such program
  void signal(int signal);             // to all that run, and to what they started
  int running() const;
  int process_of(int rank) const;  // its id

  // Where output comes from, of the streams that are wanted; that a rank has ended is told by SIGCHLD.
  void add_to(std::vector<pollfd>& polled, const OutputFilter& wanted = all) const;
  // Takes what is there. What a rank had printed when it ended is taken whether it is wanted or not.
  void collect(const Output& output, const Ended& ended, const OutputFilter& wanted = all);

 private:
  struct Rank {
    int rank = 0;
    pid_t process = -1;
    bool running = true, group = true;  // whether somebody is in its group
    Descriptor streams[2];              // what it prints, what it prints as errors
  };
  void release_group(pid_t group);  // it is over: the keeper need not kill it
  void read_from(Rank& rank, const Output& output, const OutputFilter& wanted, int most);

  std::list<Rank> ranks_;
  Descriptor reaper_;  // numbers of groups to kill
  pid_t reaper_process_ = -1;
};

// The cores of each of so many ranks: disjoint, all of them dealt out. Empty lists where there are more ranks than
// cores: nobody is bound.
std::vector<std::vector<int>> cores_of_ranks(const CpuBudget& budget, int ranks);

}  // namespace karez::tools
