// Tests of the parts of `karez run` that need no process: hosts, lines, frames, and the end of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

#include "karez/base/test_error.h"
#include "tools/karez/hostfile.h"
#include "tools/karez/line_prefixer.h"
#include "tools/karez/rank_group.h"
#include "tools/karez/run_frames.h"
#include "tools/karez/shutdown_escalation.h"

namespace karez::tools {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::pair<std::string, int>> hosts(std::string_view text) {
  std::vector<std::pair<std::string, int>> out;
  for (const HostSlots& host : parse_hostfile(text, "hosts")) out.emplace_back(host.name, host.slots);
  return out;
}

TEST(Hostfile, LinesNameHostsAndTheirSlots) {
  EXPECT_THAT(hosts("# ours\n\nalpha slots=4\n  beta  # one\nme@10.0.0.7 slots=2 max_slots=8\r\n"),
              ElementsAre(std::pair("alpha", 4), std::pair("beta", 1), std::pair("me@10.0.0.7", 2)));
  EXPECT_THAT(hosts("a\nb slots=2\na max-slots=9 slots=3\n"), ElementsAre(std::pair("a", 4), std::pair("b", 2)));
}

TEST(Hostfile, ErrorsNameTheLine) {
  for (auto [text, message] : {std::pair{"a\nb slot=2\n", "hosts: line 2: 'slot=2' must be slots=N or max_slots=N"},
                               {"a slots=0", "hosts: line 1: 'slots=0': the number of slots must be 1 to"},
                               {"a slots=x", "'slots=x': the number of slots must be"},
                               {"a slots=99999999", "'slots=99999999': the number of slots must be"},
                               {"a slots", "'slots': the number of slots must be"},
                               {"slots=4", "'slots=4' is not a host name"},
                               {"-oProxyCommand=x", "'-oProxyCommand=x' is not a host name"},
                               {"# none\n", "hosts: the file lists no host"}})
    EXPECT_THAT(error_of([&] { hosts(text); }), HasSubstr(message));
}

TEST(Hostfile, RanksFillTheSlotsOfHostsInOrder) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 1}, {"c", 3}};
  EXPECT_THAT(deal_ranks(hosts, 4), ElementsAre(2, 1, 1));
  EXPECT_THAT(deal_ranks(hosts, 2), ElementsAre(2, 0, 0));
  EXPECT_THAT(deal_ranks(hosts, 6), ElementsAre(2, 1, 3));
  EXPECT_EQ(error_of([&] { deal_ranks(hosts, 7); }),
            "7 ranks requested, but the hosts have only 6 slots in total (a: 2, b: 1, c: 3)");
}

TEST(LinePrefixer, LinesAreBufferedUntilTheyEnd) {
  LinePrefixer lines("[3] ");
  EXPECT_EQ(lines.take("a"), "");
  EXPECT_EQ(lines.take("b\ncd\n\ne"), "[3] ab\n[3] cd\n[3] \n");
  EXPECT_EQ(lines.take(""), "");
  EXPECT_EQ(lines.rest(), "[3] e\n");
  EXPECT_EQ(lines.rest(), "");
  EXPECT_EQ(lines.take("\n"), "[3] \n");
}

TEST(LinePrefixer, BytesAreNotChanged) {
  const std::string bytes = std::string("\0\xff\r\x1b[1m", 7) + "\n";
  LinePrefixer single_call("> "), byte_calls("> ");
  std::string out;
  for (char c : bytes) out += byte_calls.take({&c, 1});
  EXPECT_EQ(out, "> " + bytes);
  EXPECT_EQ(single_call.take(bytes), "> " + bytes);
}

TEST(LinePrefixer, LinesWithoutAnEndAreSplit) {
  LinePrefixer lines("");
  const std::string longest_line(LinePrefixer::max_line_bytes, 'x');
  EXPECT_TRUE(lines.take(longest_line + "y") == longest_line + "\n");
  EXPECT_EQ(lines.rest(), "y\n");
  EXPECT_TRUE(lines.take(longest_line.substr(1) + "\n") == longest_line.substr(1) + "\n");
  EXPECT_TRUE(lines.take(longest_line + longest_line + "\nz\n") == longest_line + "\n" + longest_line + "\nz\n");
  EXPECT_EQ(lines.take(longest_line), "");
  EXPECT_TRUE(lines.take("\n") == longest_line + "\n")
      << "a line end after the longest line must not add an empty line";
}

// --- frames

TEST(RunFrames, FramesAreDecodedHoweverTheirBytesAreSplit) {
  const std::vector<RunFrame> sent_frames = {{RunFrame::Kind::output, 3, std::string("a\0b", 3)},
                                             {RunFrame::Kind::ended, 0, "9"},
                                             {RunFrame::Kind::errors, 1048575, ""}};
  std::string stream, buffer;
  for (const RunFrame& frame : sent_frames) stream += encode(frame);
  std::size_t next = 0;
  for (char c : stream) {
    buffer += c;
    while (auto frame = decode_frame(buffer)) {
      ASSERT_LT(next, sent_frames.size());
      EXPECT_EQ(frame->kind, sent_frames[next].kind);
      EXPECT_EQ(frame->number, sent_frames[next].number);
      EXPECT_EQ(frame->bytes, sent_frames[next++].bytes);
    }
  }
  EXPECT_EQ(next, sent_frames.size());
  EXPECT_EQ(buffer, "");
}

TEST(RunFrames, AnInvalidHeaderIsRejected) {
  auto header = [](std::uint32_t kind, std::uint32_t number, std::uint32_t size) {
    std::string out(12, '\0');
    std::memcpy(out.data(), &kind, 4);
    std::memcpy(out.data() + 4, &number, 4);
    std::memcpy(out.data() + 8, &size, 4);
    return out;
  };
  for (std::string bytes : {header(0, 0, 0), header(8, 0, 0), header(4, 1u << 20, 0), header(4, 0, (1u << 24) + 1),
                            std::string("Permission denied")})
    EXPECT_THAT(error_of([&] { decode_frame(bytes); }), HasSubstr("is invalid")) << bytes;
}

TEST(RunFrames, TheFirstLineIsFoundAfterTheOutputOfTheLogin) {
  std::string bytes = "Welcome to alpha!\n\nkarez agent 1 ";
  EXPECT_EQ(take_hello(bytes), std::nullopt);
  bytes += "15";
  EXPECT_EQ(take_hello(bytes), std::nullopt);
  bytes += "001\nrest";
  EXPECT_EQ(take_hello(bytes), 15001);
  EXPECT_EQ(bytes, "rest");
  EXPECT_EQ(hello_line(15001), "karez agent 1 15001\n");
  std::string long_output(70000, 'x'), bad = "karez agent 1 x\n";
  EXPECT_THAT(error_of([&] { take_hello(long_output); }), HasSubstr("expected 'karez agent', got other output"));
  EXPECT_THAT(error_of([&] { take_hello(bad); }), HasSubstr("has no port"));
}

TEST(RunFrames, AnEncodedJobDecodesToTheSameJob) {
  const RunJob job{{"prog", "", "a b\n"}, {{"KAREZ_TOKEN", "x=y"}, {"E", ""}}, "/tmp/a b", 3, 2, false};
  const RunJob decoded = decode_job(encode(job));
  EXPECT_EQ(decoded.words, job.words);
  EXPECT_EQ(decoded.variables, job.variables);
  EXPECT_EQ(std::tuple(decoded.folder, decoded.first_rank, decoded.local_ranks, decoded.bind),
            std::tuple(job.folder, 3, 2, false));
  const std::string text = encode(job);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_THROW(decode_job(text.substr(0, size)), Error) << size;
  EXPECT_THROW(decode_job(text + "x"), Error);
  EXPECT_THROW(decode_job(encode(RunJob{{"p"}, {}, "", 0, 0, true})), Error) << "no ranks";
}

// --- the end of a job

const ShutdownEscalation::Time start_time{};
std::vector<std::pair<int, int>> signals(ShutdownEscalation& escalation, int until = 10000) {  // ms, signal
  std::vector<std::pair<int, int>> out;
  for (int ms = 0; ms <= until; ms += 100)
    while (auto signal = escalation.due(start_time + milliseconds(ms))) out.emplace_back(ms, *signal);
  return out;
}

TEST(ShutdownEscalation, TheOtherRanksGetSigtermOneSecondAfterAFailure) {
  ShutdownEscalation escalation;
  EXPECT_EQ(escalation.next(), std::nullopt);
  escalation.failed(start_time);
  escalation.failed(start_time + milliseconds(500));  // the failure of a rank that reports the first one
  EXPECT_EQ(escalation.next(), start_time + seconds(1));
  EXPECT_FALSE(escalation.begun());
  EXPECT_THAT(signals(escalation), ElementsAre(std::pair(1000, SIGTERM), std::pair(1800, SIGKILL)));
  EXPECT_TRUE(escalation.begun());
  EXPECT_EQ(escalation.next(), std::nullopt);
  escalation.failed(start_time);
  EXPECT_THAT(signals(escalation), IsEmpty());
}

TEST(ShutdownEscalation, CtrlCEscalatesToStrongerSignals) {
  ShutdownEscalation escalation;
  escalation.interrupted(SIGINT, start_time);
  EXPECT_THAT(signals(escalation),
              ElementsAre(std::pair(0, SIGINT), std::pair(2000, SIGTERM), std::pair(4000, SIGKILL)));
  ShutdownEscalation terminated;
  terminated.interrupted(SIGTERM, start_time);
  EXPECT_THAT(signals(terminated), ElementsAre(std::pair(0, SIGTERM), std::pair(2000, SIGKILL)));
}

TEST(ShutdownEscalation, ASecondCtrlCSendsTheNextSignalAtOnce) {
  ShutdownEscalation escalation;
  escalation.interrupted(SIGINT, start_time);
  EXPECT_THAT(signals(escalation, 0), ElementsAre(std::pair(0, SIGINT)));
  escalation.interrupted(SIGINT, start_time + milliseconds(300));
  EXPECT_EQ(escalation.due(start_time + milliseconds(300)), SIGTERM);
  EXPECT_EQ(escalation.next(), start_time + milliseconds(2300));
  escalation.interrupted(SIGINT, start_time + milliseconds(400));
  EXPECT_EQ(escalation.due(start_time + milliseconds(400)), SIGKILL);
}

TEST(ShutdownEscalation, CtrlCAfterAFailureSendsSigintAtOnce) {
  ShutdownEscalation escalation;
  escalation.failed(start_time);
  escalation.interrupted(SIGINT, start_time + milliseconds(200));
  EXPECT_EQ(escalation.due(start_time + milliseconds(200)), SIGINT);
}

int exited(int code) { return code << 8; }
RankExit ended(int rank, int status, bool after_signal = false) {
  return {rank, cat("rank ", rank), status, after_signal, ""};
}

TEST(ShutdownEscalation, TheFirstRankThatFailsOnItsOwnDecidesTheExitCode) {
  struct {
    std::vector<RankExit> ends;
    std::optional<int> interrupted;
    int code, rank;  // -1: no rank
  } const cases[] = {
      {{ended(0, 0), ended(1, 0)}, {}, 0, -1},
      {{ended(0, 0), ended(1, exited(3)), ended(2, exited(4))}, {}, 3, 1},
      {{ended(1, SIGKILL), ended(0, exited(75))}, {}, 75, 1},
      {{ended(0, exited(75)), ended(2, exited(75)), ended(1, SIGSEGV)}, {}, 75, 1},
      {{ended(0, exited(75)), ended(1, exited(64))}, {}, 64, 1},
      {{ended(0, exited(75)), ended(1, SIGTERM, true)}, {}, 75, 0},
      {{ended(2, exited(76)), ended(1, SIGTERM, true)}, {}, 76, 2},
      {{ended(0, exited(75)), ended(2, -1)}, {}, 75, 2},
      {{ended(0, SIGINT, true), ended(1, exited(1), true)}, SIGINT, 130, -1},
      {{ended(0, 0, true)}, SIGTERM, 143, -1},
      {{ended(1, exited(9)), ended(0, SIGINT, true)}, SIGINT, 9, 1},
  };
  for (const auto& [ends, interrupted, code, rank] : cases) {
    const JobResult result = job_result(ends, interrupted);
    EXPECT_EQ(result.code, code) << print(ends[0]);
    EXPECT_EQ(result.cause == nullptr ? -1 : result.cause->rank, rank) << print(ends[0]);
  }
}

TEST(ShutdownEscalation, AHangHasPriorityOverAMissingPeer) {
  EXPECT_EQ(job_result({ended(0, exited(75)), ended(1, exited(76)), ended(2, exited(76))}, {}).cause->rank, 1);
  EXPECT_EQ(job_result({ended(0, exited(76)), ended(1, exited(3))}, {}).cause->rank, 1);
}

TEST(ShutdownEscalation, TheReportNamesTheCauseBeforeItsConsequences) {
  std::vector<RankExit> ends = {ended(2, exited(75)), ended(1, exited(64)), ended(0, exited(75)), ended(3, 0),
                                ended(4, SIGTERM, true)};
  ends[1].last_error = "the disk is full";
  EXPECT_THAT(exit_report(ends, {}), ElementsAre("rank 1 reported: the disk is full",
                                                 "ended as a consequence: rank 2 (code 75), rank 0 (code 75)",
                                                 "exit code 64, because of rank 1"));
  EXPECT_THAT(exit_report({ended(1, exited(3))}, {}), ElementsAre("exit code 3, because of rank 1"));
  EXPECT_THAT(exit_report({ended(1, exited(3)), ended(0, exited(3)), ended(2, exited(75))}, {}),
              ElementsAre("also failed: rank 0 (code 3)", "ended as a consequence: rank 2 (code 75)",
                          "exit code 3, because of rank 1"));
  EXPECT_THAT(exit_report({ended(0, exited(76)), ended(2, exited(76)), ended(1, SIGTERM, true)}, {}),
              ElementsAre("exit code 76, reported by rank 0"));
  EXPECT_THAT(exit_report({ended(0, 0)}, {}), IsEmpty());
  EXPECT_THAT(exit_report({ended(0, SIGINT, true)}, SIGINT), IsEmpty());
}

TEST(ShutdownEscalation, AnExitIsPrintedWithItsSignalOrItsCode) {
  EXPECT_EQ(print(ended(2, SIGKILL)), "rank 2 was ended by signal 9 (Killed)");
  EXPECT_EQ(print(ended(2, exited(75))), "rank 2 ended with exit code 75");
  EXPECT_EQ(print(ended(2, -1)), "rank 2 is gone with its host");
}

TEST(Cores, RanksGetDisjointCores) {
  auto cores = [](std::vector<int> cpus, int count, int ranks) {
    return cores_of_ranks({std::move(cpus), 0, count}, ranks);
  };
  EXPECT_THAT(cores({2, 3, 5, 7, 8}, 5, 2), ElementsAre(ElementsAre(2, 3, 5), ElementsAre(7, 8)));
  EXPECT_THAT(cores({0, 1}, 2, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(cores({0, 1}, 2, 3), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()))
      << "no rank must be bound if there are more ranks than cores";
  EXPECT_THAT(cores({0, 1, 2, 3}, 2, 2), ElementsAre(ElementsAre(0), ElementsAre(1)))
      << "two ranks must share a quota of two cores";
}

}  // namespace
}  // namespace karez::tools
