// Tests of ranks as processes: their output, their exit, and their end when the process that started them ends.
#include "tools/karez/rank_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "karez/base/test_error.h"
#include "tools/karez/rank_printer.h"
#include "tools/karez/run_ranks.h"

namespace karez::tools {
namespace {
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

RankStart shell(int rank, const std::string& text) { return {rank, {"sh", "-c", text}, {}, {}}; }

// The output and exit status of each rank.
struct CollectedOutput {
  std::map<int, std::string> out, error;
  std::map<int, int> status;
  std::map<int, std::string> out_at_end;

  void collect(RankGroup& group) {
    group.collect([&](int rank, bool is_error, std::string_view bytes) { (is_error ? error : out)[rank] += bytes; },
                  [&](int rank, int wait_status) { status[rank] = wait_status, out_at_end[rank] = out[rank]; });
  }
  // Waits until the condition holds, at most ten seconds.
  bool await(RankGroup& group, const std::function<bool()>& holds) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (collect(group), !holds()) {
      if (Clock::now() > deadline) return false;
      std::vector<pollfd> polled;
      group.add_to(polled);
      poll(polled.data(), polled.size(), 10);
    }
    return true;
  }
  bool await_all(RankGroup& group) {
    return await(group, [&] { return group.running() == 0; });
  }
};

// Returns whether the process exists and is not a zombie.
bool is_alive(int process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  const auto end = line.rfind(')');
  return end != std::string::npos && line[end + 2] != 'Z' && line[end + 2] != 'X';
}
bool ends_within_timeout(int process) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (is_alive(process) && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return !is_alive(process);
}

TEST(RankGroup, AllOutputOfARankArrivesBeforeItsExitStatus) {
  RankGroup group;
  CollectedOutput collected;
  group.start(shell(3, "head -c 300000 /dev/zero; printf over; printf wrong >&2; exit 5"));
  group.start({4, {"sh", "-c", "echo $NAME $0 $1; kill -9 $$", "a b", "c"}, {{"NAME", "x y"}, {"NAME", "z"}}, {}});
  EXPECT_EQ(group.running(), 2);
  EXPECT_GT(group.process_of(4), 0);
  EXPECT_EQ(group.process_of(5), -1);
  ASSERT_TRUE(collected.await_all(group));
  EXPECT_TRUE(WIFEXITED(collected.status[3]) && WEXITSTATUS(collected.status[3]) == 5);
  EXPECT_TRUE(WIFSIGNALED(collected.status[4]) && WTERMSIG(collected.status[4]) == SIGKILL);
  EXPECT_EQ(collected.out_at_end[3].size(), 300004u);
  EXPECT_EQ(collected.error[3], "wrong");
  EXPECT_EQ(collected.out_at_end[4], "z a b c\n") << "the last of two values of a variable must be used";
}

TEST(RankGroup, AMissingProgramIsReportedAndTheOtherRanksContinue) {
  RankGroup group;
  CollectedOutput collected;
  group.start(shell(0, "sleep 0.1; echo well"));
  EXPECT_EQ(error_of([&] {
              group.start({1, {"no-such-program-of-ours"}, {}, {}});
            }),
            "cannot start 'no-such-program-of-ours': No such file or directory");
  EXPECT_EQ(error_of([&] { group.start({1, {}, {}, {}}); }), "no program to start");
  EXPECT_EQ(group.running(), 1);
  ASSERT_TRUE(collected.await_all(group));
  EXPECT_EQ(collected.out[0], "well\n");
}

TEST(RankGroup, SignalsReachTheChildrenOfARank) {
  RankGroup group;
  CollectedOutput collected;
  group.start(shell(0, "sleep 100 & echo $!; wait"));
  ASSERT_TRUE(collected.await(group, [&] { return collected.out[0].ends_with("\n"); }));
  const int child = std::stoi(collected.out[0]);
  EXPECT_TRUE(is_alive(child));
  group.signal(SIGTERM);
  EXPECT_TRUE(ends_within_timeout(child));
  ASSERT_TRUE(collected.await_all(group));
  EXPECT_TRUE(WIFSIGNALED(collected.status[0]) && WTERMSIG(collected.status[0]) == SIGTERM);
}

TEST(RankGroup, AStoppedRankReceivesSignals) {
  RankGroup group;
  CollectedOutput collected;
  group.start(shell(0, "echo ready; kill -STOP $$; echo never"));
  ASSERT_TRUE(collected.await(group, [&] { return collected.out[0] == "ready\n"; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  group.signal(SIGTERM);
  ASSERT_TRUE(collected.await_all(group));
  EXPECT_EQ(collected.out[0], "ready\n");
}

TEST(RankGroup, ProcessesThatARankStartedEndWithTheGroup) {
  int child = 0, rank = 0;
  {
    RankGroup group;
    CollectedOutput collected;
    group.start(shell(0, "sleep 100 >/dev/null 2>&1 & echo $!"));
    group.start(shell(1, "echo ready; sleep 100"));
    ASSERT_TRUE(
        collected.await(group, [&] { return collected.status.count(0) == 1 && collected.out[1] == "ready\n"; }));
    child = std::stoi(collected.out[0]), rank = group.process_of(1);
    EXPECT_TRUE(is_alive(child));
    EXPECT_TRUE(is_alive(rank));
  }
  EXPECT_TRUE(ends_within_timeout(child));
  EXPECT_TRUE(ends_within_timeout(rank));
}

// Another process starts the ranks, reports their ids and is killed.
TEST(RankGroup, RanksAndTheirChildrenEndWithTheProcessThatStartedThem) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    RankGroup group;
    CollectedOutput collected;
    group.start(shell(
        0, "trap '' TERM INT HUP; (trap '' TERM INT HUP; while :; do sleep 0.1; done) & echo $$ $!; wait; sleep 100"));
    collected.await(group, [&] { return collected.out[0].ends_with("\n"); });
    [[maybe_unused]] auto written = write(ends[1], collected.out[0].data(), collected.out[0].size());
    pause();
    _exit(0);
  }
  char text[64] = {};
  ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
  int rank = 0, child = 0;
  ASSERT_EQ(std::sscanf(text, "%d %d", &rank, &child), 2);
  EXPECT_TRUE(is_alive(rank) && is_alive(child));
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  EXPECT_TRUE(ends_within_timeout(rank));
  EXPECT_TRUE(ends_within_timeout(child));
  close(ends[0]);
  close(ends[1]);
}

TEST(RankGroup, EachRankIsBoundToItsCpus) {
  const std::vector<int> cpus = cpu_budget().cpus;
  RankGroup group;
  CollectedOutput collected;
  RankStart bound_start = shell(0, "grep Cpus_allowed_list /proc/self/status");
  bound_start.cpus = {cpus.back()};
  group.start(bound_start);
  ASSERT_TRUE(collected.await_all(group));
  EXPECT_THAT(collected.out[0], HasSubstr(cat("\t", cpus.back(), "\n")));
}

TEST(StartRanks, EachRankReceivesItsNumber) {
  RankGroup group;
  CollectedOutput collected;
  const std::string folder = std::filesystem::current_path().string();
  start_ranks(group, {{"sh", "-c", "echo $KAREZ_RANK $KAREZ_LOCAL_RANK $KAREZ_LOCAL_RANKS $KAREZ_CROWDED $X; pwd"},
                      {{"X", "x"}},
                      "/",
                      5,
                      2,
                      false});
  std::filesystem::current_path(folder);
  ASSERT_TRUE(collected.await_all(group));
  const char* crowded = cpu_budget().cores < 2 ? "1" : "0";
  EXPECT_EQ(collected.out[5], cat("5 0 2 ", crowded, " x\n/\n"));
  EXPECT_EQ(collected.out[6], cat("6 1 2 ", crowded, " x\n/\n"));
  EXPECT_THAT(name_of_rank(group, 6), MatchesRegex(R"(rank 6 \(.+, process [0-9]+\))"));
  EXPECT_THAT(error_of([&] {
                start_ranks(group, {{"true"}, {}, "/no/such/folder", 0, 1, false});
              }),
              HasSubstr("cannot enter /no/such/folder on "));
}

TEST(RankPrinter, AFileForEachRankContainsBothOfItsStreams) {
  const auto folder = std::filesystem::temp_directory_path() / cat("karez_ranks_", getpid()) / "deep";
  {
    RankPrinter printer(2, folder.string(), true);
    printer.print(1, false, "a");
    printer.print(1, true, "b\n");
    printer.print(0, false, "c");
    printer.finish_rank(1);
  }
  auto text = [&](const char* name) {
    std::ifstream in(folder / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(text("rank0.txt"), "c");
  EXPECT_EQ(text("rank1.txt"), "ab\n");
  std::filesystem::remove_all(folder.parent_path());
}

TEST(RankPrinter, LinesOfTheTwoStreamsOfARankDoNotMix) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  RankPrinter printer(2, "", true), unprefixed(2, "", false);
  printer.print(0, false, "one ");
  printer.print(0, true, "wrong");
  printer.print(1, false, "other\n");
  printer.print(0, false, "line\nlast");
  printer.finish_rank(0);
  unprefixed.print(0, false, "as it is\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[1] other\n[0] one line\n[0] last\nas it is\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[0] wrong\n");
}

TEST(RankPrinter, AFullDiskIsReportedOncePerOutput) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC), old_stdout = dup(1);
  dup2(full, 1);
  RankPrinter printer(2, "", false);
  printer.print(0, false, "lost\n");
  printer.print(1, false, "lost too\n");
  dup2(old_stdout, 1);
  close(full);
  close(old_stdout);
  const auto failure = printer.take_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->number, ENOSPC);
  EXPECT_EQ(failure->where, "standard output");
  EXPECT_FALSE(printer.take_failure());
  EXPECT_FALSE(printer.blocked());
}

TEST(RankPrinter, APipeWithoutAReaderDoesNotBlockAndAllOutputArrivesLater) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int old_stdout = dup(1);
  dup2(ends[1], 1);
  close(ends[1]);
  RankPrinter printer(1, "", true);
  std::string expected;
  for (int line = 0; line < 50'000; ++line) {
    printer.print(0, false, cat("line ", line, "\n"));
    expected += cat("[0] line ", line, "\n");
  }
  EXPECT_TRUE(printer.blocked());
  std::string read_back;
  std::vector<char> bytes(1 << 16);
  while (read_back.size() < expected.size()) {
    const auto n = read(ends[0], bytes.data(), bytes.size());
    ASSERT_GT(n, 0);
    read_back.append(bytes.data(), static_cast<std::size_t>(n));
    printer.flush_pending();
  }
  EXPECT_TRUE(read_back == expected);
  EXPECT_FALSE(printer.blocked());
  dup2(old_stdout, 1);
  close(old_stdout);
  close(ends[0]);
}

}  // namespace
}  // namespace karez::tools
