// Tests of the settings that ranks exchange: their texts, the decision of rank 0, and the texts that ranks compare.
#include "karez/api/ranks/common_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <future>
#include <map>

#include "karez/api/namespace.h"
#include "karez/api/ranks/ranks.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/world.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CommonSettings, TheTextContainsEverySetting) {
  const CommonSettings settings{7, 4096, {{0, 0, 1}, "tcp"}, "matmul_flops=1\ncall=2\n"};
  EXPECT_EQ(settings.print(), "7 4096\nhosts 0 0 1\nlink tcp\nmatmul_flops=1\ncall=2\n");
  const CommonSettings parsed = CommonSettings::parse(settings.print());
  EXPECT_EQ(parsed.cores, 7);
  EXPECT_EQ(parsed.memory, 4096);
  EXPECT_THAT(parsed.topology.hosts, ElementsAre(0, 0, 1));
  EXPECT_EQ(parsed.topology.link, "tcp");
  EXPECT_EQ(parsed.costs, "matmul_flops=1\ncall=2\n");
  EXPECT_EQ(CommonSettings::parse("1 0\nhosts \nlink \n").topology.link, "");
  for (const std::string text : {"", "x 0\nhosts 0\nlink \n", "1\nhosts 0\nlink \n", "1 0\nhost 0\nlink \n",
                                 "1 0\nhosts 0\nlimk \n", "1 0\nhosts 0"}) {
    try {
      CommonSettings::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::peer);
      EXPECT_EQ(error.what(), cat("rank 0 sent malformed common settings: ", text));
    }
  }
}

TEST(CommonSettings, TheTextOfARankContainsEverySetting) {
  const RankInfo info{"a = 1\nb = 2\n", "machine cpus 0 1", "host", 3, 512};
  EXPECT_EQ(info.print(), "3 512\nmachine cpus 0 1\nhost\na = 1\nb = 2\n");
  const RankInfo parsed = RankInfo::parse(info.print());
  EXPECT_EQ(parsed.equal, info.equal);
  EXPECT_EQ(parsed.machine, info.machine);
  EXPECT_EQ(parsed.host, info.host);
  EXPECT_EQ(parsed.cores, 3);
  EXPECT_EQ(parsed.memory, 512);
}

TEST(CommonSettings, TheOptionsThatMustBeEqualAreListed) {
  const auto text = [](const WorldOptions& options) { return options_to_match(options, "Karez = 1\n"); };
  EXPECT_THAT(text({.devices = 2, .team = 3, .data_cores = 1, .in_flight = 5, .seed = 9}),
              ::testing::MatchesRegex("Karez = 1\nprocessor = (x86( avx2)?( fma)?( avx512f)?( avx512bw)?|not an x86 "
                                      "processor)\ndevices = 2\nseed = 9\nteam = 3\ndata_cores = 1\nin_flight = 5\n"
                                      "check_inputs = sampled\n"));
  EXPECT_THAT(text({.check_inputs = InputCheck::off}), HasSubstr("\ncheck_inputs = off\n"));
  EXPECT_THAT(text({.check_inputs = InputCheck::full}), HasSubstr("\ncheck_inputs = full\n"));
}

TEST(CommonSettings, Rank0TakesTheSmallestLimits) {
  const auto rank = [](const char* machine, const char* host, int cores, std::int64_t memory) {
    return RankInfo{"a = 1\n", machine, host, cores, memory};
  };
  // Two ranks share 8 cores, so each has 4; the third rank has 5 cores of its own.
  EXPECT_EQ(decide({rank("m", "h", 8, 0), rank("m", "h", 8, 300), rank("n", "i", 5, 200)}, "costs\n", "shm"),
            "+4 200\nhosts 0 0 1\nlink shm\ncosts\n");
  EXPECT_EQ(decide({rank("m", "h", 8, 100), rank("n", "i", 3, 0), rank("o", "h", 6, 150)}, "", ""),
            "+3 100\nhosts 0 1 0\nlink \n");
  EXPECT_EQ(decide({rank("m", "h", 1, 0), rank("m", "h", 1, 0)}, "", ""), "+1 0\nhosts 0 0\nlink \n")
      << "each rank has at least one core";
  RankInfo other = rank("m", "h", 1, 0), longer = other;
  other.equal = "a = 2\n";
  longer.equal = "a = 1\nb = 1\n";
  EXPECT_EQ(decide({rank("m", "h", 1, 0), rank("m", "h", 1, 0), other}, "", ""),
            "-rank 2's World differs from rank 0's: 'a = 2' against 'a = 1'");
  EXPECT_EQ(decide({rank("m", "h", 1, 0), longer}, "", ""),
            "-rank 1's World differs from rank 0's: one text is longer");
}

// Sets variables of the environment during the object's lifetime.
class Environment {
 public:
  using Variables = std::map<std::string, std::string>;
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  Variables variables_;
};

TEST(LauncherSettings, TheLauncherMaySetTheNumberOfDevices) {
  const Environment environment(Environment::Variables{{"KAREZ_DEVICES", "3"}});
  EXPECT_EQ(error_of([] { World().mesh("data=3"); }), "no error");
  EXPECT_EQ(error_of([] { World({.devices = 3}).mesh("data=3"); }), "no error");
  EXPECT_EQ(error_of([] { World({.devices = 2}); }), "World: the options ask for 2 devices, but KAREZ_DEVICES is 3");
}

TEST(LauncherSettings, OptionsMustNotContradictTheLauncher) {
  const Ranks job = test_rendezvous(2);
  const Environment environment(Environment::Variables{{"KAREZ_RANK", "0"},
                                                       {"KAREZ_RANKS", "2"},
                                                       {"KAREZ_LOCAL_RANK", "0"},
                                                       {"KAREZ_LOCAL_RANKS", "2"},
                                                       {"KAREZ_STORE", job.store},
                                                       {"KAREZ_TOKEN", job.token}});
  for (const auto& [rank, ranks] : {std::pair(1, 2), std::pair(0, 1)})
    EXPECT_THAT(error_of([&, rank = rank, ranks = ranks] {
                  World({.ranks = Ranks{.rank = rank, .ranks = ranks, .store = job.store, .token = job.token}});
                }),
                ::testing::StartsWith(cat("World: the options say rank ", rank, " of ", ranks,
                                          ", but karez run started this process as rank 0 of 2 (")));
}

TEST(LauncherSettings, TimeoutsMustBePositive) {
  Ranks job = test_rendezvous(2);
  EXPECT_EQ(error_of([&] { World({.ranks = job, .peer_timeout = 0}); }),
            "World: peer_timeout is 0.0 s; it must be above 0");
  EXPECT_EQ(error_of([&] { World({.ranks = job, .start_timeout = -1}); }),
            "World: start_timeout is -1.0 s; it must be above 0");
  EXPECT_EQ(error_of([&] { World({.ranks = job, .call_timeout = 0}); }),
            "World: call_timeout is 0.0 s; it must be above 0");
  job.store.clear();
  EXPECT_EQ(error_of([&] { World({.ranks = job}); }),
            "rank 0 of 2 has no rendezvous address; set Ranks::store, for example to 127.0.0.1:4711");
}

TEST(RanksThatDoNotJoin, Rank0WarnsOnceAboutARankThatJoinsLate) {
  std::promise<void> warning_is_due;
  bool is_set = false;
  const auto begin = std::chrono::steady_clock::now();
  ::testing::internal::CaptureStderr();
  const auto texts = errors_by_rank(2, [&](const Ranks& job) {
    WorldOptions options{.ranks = job, .peer_timeout = 0.3};
    if (job.rank == 1) warning_is_due.get_future().wait();
    else
      options.while_waiting = [&] {
        if (!is_set && std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(700)) {
          is_set = true;
          warning_is_due.set_value();
        }
      };
    WorldRanks ranks(options);
  });
  const std::string warnings = ::testing::internal::GetCapturedStderr(),
                    warning = "rank 1 of 2 has not joined this world after 0.3 s; still waiting";
  EXPECT_THAT(texts, ::testing::Each("no error"));
  EXPECT_THAT(warnings, HasSubstr(warning));
  EXPECT_EQ(warnings.find(warning), warnings.rfind(warning)) << warnings;
}

TEST(TextsOfRanks, DifferencesAndOutcomesReachEveryRank) {
  on_ranks(3, [](const Ranks& job) {
    WorldOptions options{.ranks = job};
    WorldRanks ranks(options);
    auto difference = [&, op = std::uint64_t{0}](const char* first, const char* second) mutable {
      return ranks.first_difference(++op, {0, 2}, job.rank == 2 ? second : first);
    };
    EXPECT_EQ(difference("a\nb\nc\n", "a\nx\ny\n"), "rank 0: b\nrank 2: x");
    EXPECT_EQ(difference("a\nb\n", "a\n"), "rank 0: b\nrank 2: (nothing more)");
    EXPECT_EQ(difference("a\n", "a\nb\n"), "rank 0: (nothing more)\nrank 2: b");
    EXPECT_EQ(difference("a\n", "a\n"), "their texts are equal; their kernels, options or versions differ");
    EXPECT_THAT(ranks.all_texts(1, cat("text ", job.rank)), ElementsAre("text 0", "text 1", "text 2"));
    EXPECT_THAT(ranks.all_texts(2, std::string(1 << 16, 'x')), ::testing::SizeIs(3));
    EXPECT_EQ(error_of([&] { ranks.all_texts(3, std::string(1 << 20, 'x')); }),
              "a text of 1048576 bytes is too long to be exchanged between ranks");
    const auto mismatch = [&](std::uint64_t op, std::vector<std::string> lines) {
      std::map<int, std::string> by_rank;
      for (int other = 0; other < 3; ++other)
        if (other != job.rank) by_rank[other] = lines[static_cast<std::size_t>(job.rank + other - 1)];
      return ranks.link_mismatch(op, by_rank);
    };
    EXPECT_EQ(mismatch(1, {"ab\n", "ac\n", "bc\n"}), "the compared parts of the link descriptions are equal");
    EXPECT_EQ(mismatch(2, {"ab\n", "ac\n", job.rank == 1 ? "m\nbc\n" : "m\ncb\n"}), "rank 1: bc\nrank 2: cb");
    EXPECT_EQ(mismatch(3, {job.rank == 0 ? "one\n" : "", "ac\n", "bc\n"}), "rank 0: one\nrank 1: (nothing more)");
    if (job.rank == 0) {
      ranks.publish_outcome("good", std::nullopt);
      ranks.publish_outcome("bad", Error(ErrorKind::data, "disk full"));
    } else {
      EXPECT_FALSE(ranks.read_outcome("good").has_value());
      const auto failure = ranks.read_outcome("bad");
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->kind, ErrorKind::data);
      EXPECT_STREQ(failure->what(), "rank 0: disk full");
    }
  });
}

// Each read of a value that is split between ranks has a plan, and only the plans of the latest reads are kept.
TEST(Gathers, ManyDifferentArraysCanBeReadInAnyOrder) {
  on_ranks(2, [](const Ranks& job) {
    World world({.ranks = job});
    std::vector<Array> arrays;
    for (int size = 2; size < 22; ++size)
      arrays.push_back(array_on(world.mesh("d=2"), small_integers(DType::f32, {size}), {"d"}));
    for (int round = 0; round < 2; ++round)
      for (const Array& array : arrays)
        EXPECT_TRUE(equal_bits(array.read(), small_integers(DType::f32, array.type().shape)));
    EXPECT_TRUE(equal_bits(arrays[18].read(), small_integers(DType::f32, {20})));
  });
}

}  // namespace
}  // namespace karez
