// karez profile: runs a program with a profile of its launches, or merges the traces of ranks.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <regex>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"
#include "tools/karez/merge_json.h"
#include "tools/karez/run_options.h"

namespace karez::tools {
namespace {
namespace fs = std::filesystem;

struct Options {
  std::int64_t ranks = 1, devices = 0, steps = 10, skip = 2;
  std::string out = "profile", merge;
  std::vector<std::string> words;
};

// The files that worlds have written, without extension: profile.0, and profile.0.2 for a second world of rank 0.
std::vector<std::string> profiles_in(const fs::path& folder) {
  static const std::regex name(R"((profile\.\d+(\.\d+)?)\.json)");
  std::vector<std::string> out;
  std::smatch match;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string file = entry.path().filename(); std::regex_match(file, match, name)) out.push_back(match[1]);
  std::sort(out.begin(), out.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  return out;
}

volatile std::sig_atomic_t child = 0;

// Runs a program with the input and output of this one, and returns its exit code.
int run_alone(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int pipe_ends[2];
  require(pipe2(pipe_ends, O_CLOEXEC) == 0, "cannot create a pipe: ", std::strerror(errno));
  sigset_t signals, before;  // they wait until this process handles them, while the program may run already
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t process = fork();
  require(process >= 0, "cannot start a process: ", std::strerror(errno));
  if (process == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    if (write(pipe_ends[1], &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  close(pipe_ends[1]);
  child = process;
  std::signal(SIGINT, SIG_IGN);  // the terminal sends it to the program, too
  std::signal(SIGTERM, [](int signal) { kill(child, signal); });
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int error = 0, status = 0;
  const bool started = read(pipe_ends[0], &error, sizeof error) <= 0;
  close(pipe_ends[0]);
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  require(started, "cannot start '", words[0], "': ", std::strerror(error));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int profile(const Options& options) {
  require(!options.words.empty(), "PROGRAM is required; see karez profile --help");
  require(options.words[0][0] != '-', "unknown option '", options.words[0], "'; see karez profile --help");
  require(options.steps >= 1, "--steps must be at least 1, got ", options.steps);
  require(options.skip >= 0, "--skip must be at least 0, got ", options.skip);
  constexpr std::int64_t max_devices = 1 << 16;
  require(options.devices >= 0 && options.devices <= max_devices, "--devices must be 0 to ", max_devices, ", got ",
          options.devices);
  RunOptions job = job_options({}, options.ranks);
  std::error_code error;
  fs::create_directories(options.out, error);
  require(ErrorKind::data, !error, "cannot create the folder ", options.out, ": ", error.message());
  const fs::path folder = fs::absolute(options.out);
  for (const std::string& name : profiles_in(folder))  // of an earlier run
    for (const char* extension : {".json", ".txt"}) fs::remove(folder / (name + extension), error);
  setenv("KAREZ_PROFILE", folder.c_str(), 1);
  setenv("KAREZ_PROFILE_STEPS", std::to_string(options.steps).c_str(), 1);
  setenv("KAREZ_PROFILE_SKIP", std::to_string(options.skip).c_str(), 1);
  job.words = options.words;
  job.devices = static_cast<int>(options.devices);
  if (options.devices > 0 && options.ranks == 1) setenv("KAREZ_DEVICES", std::to_string(options.devices).c_str(), 1);
  const int code = options.ranks == 1 ? run_alone(options.words) : run_job(job);

  std::vector<std::pair<std::string, std::string>> traces;
  const std::vector<std::string> names = profiles_in(folder);
  for (const std::string& name : names) {
    const fs::path base = folder / name;
    traces.emplace_back(base.string() + ".json", read_text(base.string() + ".json"));
    std::printf("%s%s", names.size() > 1 ? cat("\n", name, ": ").c_str() : "",
                read_text(base.string() + ".txt").c_str());
  }
  require(code != 0 || !names.empty(), "the program has written no profile: it created no world, or was ended");
  if (names.empty()) return code;
  const std::string path = (fs::path(options.out) / "trace.json").string();
  write_text(path, merge_traces(traces));
  std::printf("wrote %s for https://ui.perfetto.dev\n", path.c_str());
  return code;
}

int merge(const Options& options) {
  require(!options.words.empty(), "--merge requires the files to merge; see karez profile --help");
  std::vector<std::pair<std::string, std::string>> traces;
  for (const std::string& path : options.words) traces.emplace_back(path, read_text(path));
  write_text(options.merge, merge_traces(traces));
  return 0;
}

}  // namespace

Command profile_command() {
  auto options = std::make_shared<Options>();
  return {"profile",
          "Runs a program that uses Karez, and prints a table of the times of its launches: karez profile PROGRAM "
          "ARGUMENTS...\n"
          "Each rank writes a trace and a table into the folder, and trace.json has the traces of all ranks. With "
          "--merge, merges\ntraces that programs have saved: karez profile --merge trace.json trace.0.json "
          "trace.1.json",
          {{"-n,--ranks", "number of processes, as of karez run", &options->ranks},
           {"--devices", "devices of each rank; 0: the program decides", &options->devices},
           {"--steps", "number of launches to record", &options->steps},
           {"--skip", "number of launches before them, to warm up", &options->skip},
           {"--out", "the folder for the files", &options->out},
           {"--merge", "the file for the merged trace; the words after the options are the traces", &options->merge}},
          [options] { return options->merge.empty() ? profile(*options) : merge(*options); },
          {},
          &options->words};
}

}  // namespace karez::tools
