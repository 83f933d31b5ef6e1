// Whether a signal has stopped another process, as this host's kernel reports it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "karez/comm/host.h"

namespace karez::comm {
namespace {

TEST(ProcessState, AProcessStoppedByASignalIsSeenUntilItContinues) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = this_process_in_proc();
    [[maybe_unused]] const auto written = write(pipe[1], own.data(), own.size());
    while (true) pause();
  }
  std::string process(512, '\0');
  process.resize(static_cast<std::size_t>(read(pipe[0], process.data(), process.size())));
  EXPECT_FALSE(is_stopped(process));
  for (int again = 0; again < 3; ++again) {
    kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    EXPECT_TRUE(is_stopped(process)) << process;
    EXPECT_FALSE(is_stopped(process + "1")) << "another process that had the same number";
    EXPECT_FALSE(is_stopped("0" + process)) << "of another host";
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
    EXPECT_FALSE(is_stopped(process));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_stopped(process)) << "it has ended";
  close(pipe[0]), close(pipe[1]);
}

TEST(ProcessState, AnUnreadableProcessIsNotStopped) {
  EXPECT_FALSE(is_stopped(this_process_in_proc()));
  for (const char* text : {"", " ", "a b 1 2", "1"}) EXPECT_FALSE(is_stopped(text)) << text;
}

}  // namespace
}  // namespace karez::comm
