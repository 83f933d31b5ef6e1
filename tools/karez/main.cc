// The command `karez`, which works with plans and graphs in files and starts ranks.
#include <cstdio>

#include "karez/base/error.h"
#include "tools/karez/commands.h"

int main(int count, char** words) {
  using namespace karez::tools;
  const Command root{
      "karez",
      "Starts programs as several processes; profiles programs; shows, checks, compares, explains, simulates and runs "
      "plans; rewrites "
      "graphs.\n"
      "Exit codes: 0 success; 1 two plans differ; 64 a wrong argument; 75 a rank or a host is lost; 76 a hang; 77 a "
      "file with invalid contents. `run` returns the exit code of the first rank that failed.",
      {},
      nullptr,
      {{"plan",
        "Shows, checks, compares and explains plans.",
        {},
        nullptr,
        {show_command(), verify_command(), diff_command(), explain_command()}},
       opt_command(),
       simulate_command(),
       exec_command(),
       profile_command(),
       run_command(),
       agent_command(),
       doctor_command(),
       flight_command()}};
  try {
    const int code = run_command_line(root, count, words);
    require(ErrorKind::data, std::fflush(stdout) == 0 && !std::ferror(stdout), "cannot write to standard output");
    return code;
  } catch (const Error& error) {
    std::fprintf(stderr, "karez: %s\n", error.what());
    return exit_code(error.kind);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "karez: %s\n", error.what());
    return exit_code(ErrorKind::device);
  }
}
