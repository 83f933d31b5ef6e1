// Starts processes by fork and exec. Between the two, the child makes only system calls.
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

// Reads ids of process groups and kills the groups when the sender has ended. A second message with an id means that
// the group has ended.
[[noreturn]] void run_reaper(int group_ids) {
  setsid();
  prctl(PR_SET_NAME, "karez-reaper");
  sigset_t all_signals;
  sigfillset(&all_signals);
  sigprocmask(SIG_SETMASK, &all_signals, nullptr);
  for (int descriptor = 0; descriptor < 3; ++descriptor) dup2(open("/dev/null", O_RDWR), descriptor);
  dup2(group_ids, 3);
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
  std::map<std::string, std::string> all_variables;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry(*at);
    auto equals = entry.find('=');
    if (equals != std::string_view::npos)
      all_variables[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : variables) all_variables[name] = value;
  std::vector<std::string> out;
  out.reserve(all_variables.size());
  for (const auto& [name, value] : all_variables) out.push_back(cat(name, "=", value));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Runs in the new process: executes the program, or reports the error.
[[noreturn]] void exec_rank(char** words, char** environment, const std::vector<int>& cpus, int out, int error,
                            int error_pipe, int reaper, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent has already ended
  const pid_t group = getpid();  // sent before this process can start others, because the parent may die at any time
  if (write(reaper, &group, sizeof group) != sizeof group) _exit(127);
  int null_device = open("/dev/null", O_RDONLY);
  if (dup2(null_device, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) _exit(127);
  if (null_device > 2) close(null_device);
  if (!cpus.empty()) device::bind_to_cpus(cpus);
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(words[0], words, environment);
  int error_number = errno;
  [[maybe_unused]] auto written = write(error_pipe, &error_number, sizeof error_number);
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

void RankGroup::release_group(pid_t group) {
  [[maybe_unused]] auto written = write(reaper_.get(), &group, sizeof group);
}

void RankGroup::start(const RankStart& start) {
  require(!start.words.empty(), "no program to start");
  auto out = pipe_pair(), error = pipe_pair(), error_pipe = pipe_pair();
  std::vector<std::string> words = start.words, variables = environment_with(start.variables);
  std::vector<char*> word_pointers = pointers_to(words), variable_pointers = pointers_to(variables);
  const pid_t parent = getpid(), process = fork();
  require(ErrorKind::device, process >= 0, "cannot create a process: ", std::strerror(errno));
  if (process == 0)
    exec_rank(word_pointers.data(), variable_pointers.data(), start.cpus, out[1].get(), error[1].get(),
              error_pipe[1].get(), reaper_.get(), parent);
  setpgid(process, process);  // parent and child both set it, in either order
  error_pipe[1].close();
  int error_number = 0;
  ssize_t n = 0;
  do n = read(error_pipe[0].get(), &error_number, sizeof error_number);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    waitpid(process, nullptr, 0);
    release_group(process);
    fail(ErrorKind::name, "cannot start '", start.words[0], "': ", std::strerror(error_number));
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
  for (const Rank& rank_state : ranks_)
    if (rank_state.rank == rank) return rank_state.process;
  return -1;
}

void RankGroup::add_to(std::vector<pollfd>& polled, const OutputFilter& filter) const {
  for (const Rank& rank : ranks_)
    for (int stream_index : {0, 1})
      if (rank.streams[stream_index] && filter(rank.rank, stream_index == 1))
        polled.push_back({rank.streams[stream_index].get(), POLLIN, 0});
}

void RankGroup::read_from(Rank& rank, const Output& output, const OutputFilter& filter, int max_reads) {
  std::array<char, 1 << 16> bytes;
  for (int stream_index : {0, 1}) {
    Descriptor& stream = rank.streams[stream_index];
    for (int i = 0; i < max_reads && stream && filter(rank.rank, stream_index == 1); ++i) {
      auto n = read(stream.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n > 0) output(rank.rank, stream_index == 1, {bytes.data(), static_cast<std::size_t>(n)});
      else stream.close();
    }
  }
}

void RankGroup::collect(const Output& output, const Ended& ended, const OutputFilter& filter) {
  for (Rank& rank : ranks_) {
    read_from(rank, output, filter, 1);
    int status = 0;
    if (!rank.running || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
    rank.running = false;
    rank.group = kill(-rank.process, 0) == 0;  // the id of a group is not reused while the group has a process
    if (!rank.group) release_group(rank.process);
    read_from(rank, output, all, 64);  // the remaining output of the rank, whose children may still run
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
