// Tests of the identity of this host, of its addresses, and of the state of its processes.
#include "karez/comm/rendezvous/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "karez/base/test_error.h"
#include "karez/comm/transport/socket.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

TEST(Host, TheNameOfTheHostIsTheSameForItsProcessesAndCanBeSet) {
  std::string host = this_host();
  EXPECT_GT(host.size(), 30u);
  ChildProcess same_host([&] { return this_host() == host ? 0 : 1; });
  ChildProcess named_host([&] {
    setenv("KAREZ_HOST", "alpha", 1);
    return this_host() == "named alpha" ? 0 : 1;
  });
  EXPECT_EQ(same_host.wait(), 0);
  EXPECT_EQ(named_host.wait(), 0);
  EXPECT_THAT(this_process(), HasSubstr(cat(", process ", getpid())));
}

TEST(Host, TheDefaultInterfaceIsLoopback) {
  EXPECT_EQ(address_of(""), "127.0.0.1");
  EXPECT_EQ(address_of("lo"), "127.0.0.1");
  EXPECT_EQ(address_of("10.1.2.3"), "10.1.2.3");
  EXPECT_THAT(error_of([] { address_of("eth99"); }),
              HasSubstr("unknown network interface 'eth99'; expected one of: lo"));
}

TEST(Host, TheOutwardAddressIsThatOfAnInterface) {
  std::string outward;
  const std::string error_text = error_of([&] { outward = outward_address(); });
  if (error_text != "no error") {  // there is no outward route
    EXPECT_THAT(error_text, HasSubstr("set KAREZ_INTERFACE"));
    return;
  }
  EXPECT_FALSE(outward.starts_with("0.") || outward.starts_with("127.")) << outward;
  Address address{outward, 0};
  EXPECT_NO_THROW(listen_at(address, 1)) << outward;
}

TEST(ProcessState, AProcessStoppedByASignalIsReportedUntilItContinues) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = this_process_in_proc();
    [[maybe_unused]] const auto written = write(pipe[1], text.data(), text.size());
    while (true) pause();
  }
  std::string process(512, '\0');
  process.resize(static_cast<std::size_t>(read(pipe[0], process.data(), process.size())));
  EXPECT_FALSE(is_stopped(process));
  for (int round = 0; round < 3; ++round) {
    kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    EXPECT_TRUE(is_stopped(process)) << process;
    EXPECT_FALSE(is_stopped(process + "1")) << "a different process with the same pid";
    EXPECT_FALSE(is_stopped("0" + process)) << "a process on a different host";
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
    EXPECT_FALSE(is_stopped(process));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_stopped(process)) << "the process has ended";
  close(pipe[0]), close(pipe[1]);
}

TEST(ProcessState, ARunningOrUnknownProcessIsNotStopped) {
  EXPECT_FALSE(is_stopped(this_process_in_proc()));
  for (const char* text : {"", " ", "a b 1 2", "1"}) EXPECT_FALSE(is_stopped(text)) << text;
}

}  // namespace
}  // namespace karez::comm
