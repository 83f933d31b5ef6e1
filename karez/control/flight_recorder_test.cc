// Tests of the text format of flight records, and of the record of a session in which a launch fails.
#include "karez/control/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "karez/base/test_error.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::control {
namespace {
using ::testing::HasSubstr;
namespace fs = std::filesystem;

FlightRecord example() {
  FlightRecord r{2,  3, "alpha, process 7", 1'700'000'000'000'000'000, 5000, "rank 1 has stopped\n  here: x\\n", {},
                 {}, {}};
  r.state.current_call = "a3 'x' of launch 7";
  r.state.waits = {{1, "a5 'sum', r9"}, {RankWait::others, "a barrier"}};
  r.plans = {{0, "step", {{0, "input arg0", ""}, {5, "sum", "sum at net.cc:12"}}}, {4, "", {}}};
  Event act{100, 7, 3, 0, ActorId(5), RegisterId(), -1, EventKind::began, Message::Kind::filled};
  Event message{200, 7, 3, 0, session_actor, RegisterId(9), 2, EventKind::posted, Message::Kind::returned};
  r.workers = {{{act, message}, 17}, {{}, 0}};
  return r;
}

std::function<void(const FlightRecord&)> record_to(const fs::path& folder) {
  return [folder](const FlightRecord& record) { write_flight_record(folder.string(), record); };
}

TEST(FlightRecord, APrintedRecordIsParsedToAnEqualRecord) {
  const FlightRecord r = example(), parsed = parse_flight_record(print(r));
  EXPECT_EQ(print(parsed), print(r));
  EXPECT_EQ(parsed.failure, r.failure);
  EXPECT_EQ(parsed.state, r.state);
  EXPECT_EQ(parsed.plans, r.plans);
  ASSERT_EQ(parsed.workers.size(), 2u);
  EXPECT_EQ(parsed.workers[0].events, r.workers[0].events);
  EXPECT_EQ(parsed.workers[0].overwritten, 17u);
}

TEST(FlightRecord, InvalidTextIsRejectedWithItsLine) {
  const std::string text = print(example());
  auto parse_error = [](const std::string& bytes) { return error_of([&] { parse_flight_record(bytes); }); };
  EXPECT_EQ(parse_error(""), "flight record: the line 'end' is missing; is the file truncated?");
  EXPECT_EQ(parse_error("plan\n"), "flight record: the first line must be 'karez flight 1'");
  EXPECT_EQ(parse_error("karez flight 1\nrank x 3 y\nend\n"), "flight record: line 2: 'x' is not a number");
  EXPECT_EQ(parse_error("karez flight 1\nactor 3 y\nend\n"),
            "flight record: line 2: 'actor' must come after a line 'plan'");
  EXPECT_EQ(parse_error("karez flight 1\nfoo\nend\n"), "flight record: line 2: unknown keyword 'foo'");
  EXPECT_EQ(parse_error("karez flight 1\nworker 0\nevent 1 jumped 1 1 1 1 1 1 filled\nend\n"),
            "flight record: line 3: unknown event kind 'jumped'");
  EXPECT_EQ(parse_error(text + "rank 1 2 x\n").find("flight record: line "), 0u);
  std::mt19937 random(1);
  for (std::size_t size = 0; size < text.size(); size += 7)
    EXPECT_NE(parse_error(text.substr(0, size)), "no error") << size;
  for (int i = 0; i < 2000; ++i) {  // damaged text is accepted or rejected with a data error
    std::string damaged = text;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      parse_flight_record(damaged);
    } catch (const Error& error) { EXPECT_EQ(error.kind, ErrorKind::data); }
  }
}

TEST(FlightRecord, AFailingSessionWritesItsLastEvents) {
  const fs::path folder = fs::temp_directory_path() / cat("karez-flight-", getpid());
  KernelTable table(test_kernels());
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b", 1);
  s.start(a, 3);
  s.edge(a, {b}, 2);
  s.done(b, 3);
  s.call(b, "test.fail", {}, {}, {{"at", std::int64_t{2}}});
  Session session({.workers = 2, .write_flight_record = record_to(folder)}, table);
  const Launch launch = session.launch(session.load(s.plan));
  EXPECT_NE(error_of([&] { launch.wait(); }), "no error");
  std::ifstream in(flight_record_path(folder.string(), 0));
  const FlightRecord r = parse_flight_record(std::string(std::istreambuf_iterator<char>(in), {}));
  EXPECT_EQ(r.ranks, 1);
  EXPECT_THAT(r.failure, HasSubstr("run 2 failed"));
  EXPECT_THAT(r.process, HasSubstr(cat("process ", getpid())));
  ASSERT_EQ(r.plans.size(), 1u);
  EXPECT_EQ(r.plans[0].actors.at(1).name, "b");
  int failed = 0;
  for (const EventLog& log : r.workers)
    for (const Event& event : log.events) failed += event.kind == EventKind::failed && event.actor == b;
  EXPECT_EQ(failed, 1);
  EXPECT_FALSE(fs::exists(flight_record_path(folder.string(), 0) + ".part"));
  fs::remove_all(folder);
}

TEST(FlightRecord, ASymbolicLinkInPlaceOfTheFileIsReplacedAndNotFollowed) {
  const fs::path folder = fs::temp_directory_path() / cat("karez-flight-link-", getpid()), other = folder / "other";
  fs::create_directories(folder);
  std::ofstream(other) << "untouched";
  const std::string path = flight_record_path(folder.string(), 2);
  for (const std::string& link : {path, path + ".part"}) fs::create_symlink(other, link);
  write_flight_record(folder.string(), example());
  std::ifstream other_file(other), record_file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(other_file), {}), "untouched");
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(record_file), {}), print(example()));
  fs::remove_all(folder);
}

TEST(FlightRecord, ARecordThatCannotBeWrittenDoesNotReplaceTheErrorOfTheLaunch) {
  KernelTable table(test_kernels());
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.call(a, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  Session session({.write_flight_record = record_to("/proc/none/such")}, table);
  const Launch launch = session.launch(session.load(s.plan));
  EXPECT_THAT(error_of([&] { launch.wait(); }), HasSubstr("run 1 failed"));
}

}  // namespace
}  // namespace karez::control
