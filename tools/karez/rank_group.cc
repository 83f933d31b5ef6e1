// Starts processes by fork and exec; between the two it makes system calls only.
#include "tools/karez/rank_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "karez/base/error.h"
#include "tools/karez/pipe.h"

extern char** environ;

namespace karez::tools {
namespace {

// Reads ids of process groups and kills the groups when the sender is gone. An id that is sent again has ended.
[[noreturn]] void run_reaper(int numbers) {
  setsid();
  prctl(PR_SET_NAME, "karez-reaper");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int other = 0; other < 3; ++other) dup2(open("/dev/null", O_RDWR), other);
  dup2(numbers, 3);
  close_range(4, ~0u, 0);
  std::vector<pid_t> groups;
  pid_t number = 0;
  while (true) {
    auto n = read(3, &number, sizeof number);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof number) break;
    auto at = std::find(groups.begin(), groups.end(), number);
    if (at == groups.end()) groups.push_back(number);
    else groups.erase(at);
  }
  for (pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::map<std::string, std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry(*at);
    auto equals = entry.find('=');
    if (equals != std::string_view::npos) all[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : variables) all[name] = value;
  std::vector<std::string> out;
  out.reserve(all.size());
  for (const auto& [name, value] : all) out.push_back(cat(name, "=", value));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In the new process: executes the program, or reports the error.
[[noreturn]] void exec_rank(char** words, char** environment, const std::vector<int>& cpus, int out, int error, int why,
                            int reaper, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before
  const pid_t group = getpid();  // sent before this process can start others, because the parent may die at any time
  if (write(reaper, &group, sizeof group) != sizeof group) _exit(127);
  int nothing = open("/dev/null", O_RDONLY);
  if (dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) _exit(127);
  if (nothing > 2) close(nothing);
  if (!cpus.empty()) device::bind_to_cpus(cpus);
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(words[0], words, environment);
  int reason = errno;
  [[maybe_unused]] auto told = write(why, &reason, sizeof reason);
  _exit(127);
}

}  // namespace

RankGroup::RankGroup() {
  auto ends = pipe_pair();
  const pid_t process = fork();
  require(ErrorKind::device, process >= 0, "cannot create a process: ", std::strerror(errno));
  if (process == 0) {
    ends[1].close();
    run_reaper(ends[0].get());
  }
  reaper_ = std::move(ends[1]);
  reaper_process_ = process;
}

RankGroup::~RankGroup() {
  signal(SIGKILL);
  for (Rank& rank : ranks_)
    if (rank.running) waitpid(rank.process, nullptr, 0);
  reaper_.close();
  waitpid(reaper_process_, nullptr, 0);
}

void RankGroup::release_group(pid_t group) { [[maybe_unused]] auto told = write(reaper_.get(), &group, sizeof group); }

void RankGroup::start(const RankStart& start) {
  require(!start.words.empty(), "no program to start");
  auto out = pipe_pair(), error = pipe_pair(), why = pipe_pair();
  std::vector<std::string> words = start.words, variables = environment_with(start.variables);
  std::vector<char*> word_pointers = pointers_to(words), variable_pointers = pointers_to(variables);
  const pid_t parent = getpid(), process = fork();
  require(ErrorKind::device, process >= 0, "cannot create a process: ", std::strerror(errno));
  if (process == 0)
    exec_rank(word_pointers.data(), variable_pointers.data(), start.cpus, out[1].get(), error[1].get(), why[1].get(),
              reaper_.get(), parent);
  setpgid(process, process);  // parent and child both set it, in either order
  why[1].close();
  int reason = 0;
  ssize_t n = 0;
  do n = read(why[0].get(), &reason, sizeof reason);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    waitpid(process, nullptr, 0);
    release_group(process);
    fail(ErrorKind::name, "cannot start '", start.words[0], "': ", std::strerror(reason));
  }
  Rank& rank = ranks_.emplace_back();
  rank.rank = start.rank;
  rank.process = process;
  rank.streams[0] = std::move(out[0]);
  rank.streams[1] = std::move(error[0]);
  for (Descriptor& stream : rank.streams) fcntl(stream.get(), F_SETFL, O_NONBLOCK);
}

void RankGroup::signal(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.group) continue;  // a rank that has ended may have running children
    kill(-rank.process, signal);
    if (signal != SIGKILL) kill(-rank.process, SIGCONT);  // a stopped process receives no other signal
  }
}

int RankGroup::running() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; }));
}

int RankGroup::process_of(int rank) const {
  for (const Rank& one : ranks_)
    if (one.rank == rank) return one.process;
  return -1;
}

void RankGroup::add_to(std::vector<pollfd>& polled, const OutputFilter& wanted) const {
  for (const Rank& rank : ranks_)
    for (int which : {0, 1})
      if (rank.streams[which] && wanted(rank.rank, which == 1))
        polled.push_back({rank.streams[which].get(), POLLIN, 0});
}

void RankGroup::read_from(Rank& rank, const Output& output, const OutputFilter& wanted, int most) {
  std::array<char, 1 << 16> bytes;
  for (int which : {0, 1}) {
    Descriptor& stream = rank.streams[which];
    for (int i = 0; i < most && stream && wanted(rank.rank, which == 1); ++i) {
      auto n = read(stream.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n > 0) output(rank.rank, which == 1, {bytes.data(), static_cast<std::size_t>(n)});
      else stream.close();
    }
  }
}

void RankGroup::collect(const Output& output, const Ended& ended, const OutputFilter& wanted) {
  for (Rank& rank : ranks_) {
    read_from(rank, output, wanted, 1);
    int status = 0;
    if (!rank.running || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
    rank.running = false;
    rank.group = kill(-rank.process, 0) == 0;  // its id is not reused while it has a process
    if (!rank.group) release_group(rank.process);
    read_from(rank, output, all, 64);  // its remaining output; its children may run on
    ended(rank.rank, status);
  }
}

std::vector<std::vector<int>> cores_of_ranks(const CpuBudget& budget, int ranks) {
  if (ranks > budget.cores) return std::vector<std::vector<int>>(static_cast<std::size_t>(ranks));
  std::vector<int> teams;
  teams.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    teams.push_back(budget.cores / ranks + (rank < budget.cores % ranks ? 1 : 0));
  return assign_cpus(budget.cpus, teams);
}

}  // namespace karez::tools
