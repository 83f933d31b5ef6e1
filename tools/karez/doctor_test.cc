// Tests of karez doctor within one process: links, rates, kernels, and the text form of facts and results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/comm/transport/socket_wire.h"
#include "karez/comm/transport/test_socket_pairs.h"
#include "tools/karez/doctor_facts.h"
#include "tools/karez/doctor_links.h"
#include "tools/karez/measure_kernels.h"
#include "tools/karez/measure_link.h"
#include "tools/karez/measure_rates.h"

namespace karez::tools {
namespace {
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ConnectionPair {
  Reactor reactor;
  std::array<Descriptor, 2> sockets = tcp_pair();
  int socket_of_one = sockets[1].get();
  Connection zero{reactor, std::make_unique<SocketWire>(std::move(sockets[0])), "rank 1"},
      one{reactor, std::make_unique<SocketWire>(std::move(sockets[1])), "rank 0"};
};

TEST(MeasureLink, BothEndsAgreeOnTheNumberOfMessages) {
  ConnectionPair pair_of_connections;
  LinkMeasure measure;
  std::string error_text;
  const auto begin = std::chrono::steady_clock::now();
  std::thread peer([&] { error_text = error_of([&] { measure_link(pair_of_connections.one, 1, false, 99); }); });
  measure = measure_link(pair_of_connections.zero, 1, true, 0.3);
  peer.join();
  EXPECT_EQ(error_text, "no error");
  EXPECT_GT(measure.cost.alpha, 1e-7);
  EXPECT_LT(measure.cost.alpha, 0.1);
  EXPECT_GT(measure.cost.beta, 1e-12);
  EXPECT_LT(measure.cost.beta, 1e-6);
  EXPECT_LE(std::abs(measure.clock), measure.clock_error + 1e-6) << "both ends read the same clock";
  EXPECT_LE(measure.clock_error, measure.cost.alpha * 1.01)
      << "the fastest round trip must not be longer than the median";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(MeasureLink, ASilentPeerCausesATimeout) {
  ConnectionPair pair_of_connections;
  EXPECT_THAT(error_of([&] { measure_link(pair_of_connections.zero, 1, true, 0.1, Seconds(0.2)); }),
              HasSubstr("no message within 0.2 s"));
}

TEST(MeasureLink, APeerThatDisconnectsIsReported) {
  ConnectionPair pair_of_connections;
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::shutdown(pair_of_connections.socket_of_one, SHUT_RDWR);
  });
  EXPECT_THAT(error_of([&] { measure_link(pair_of_connections.zero, 1, true, 0.1); }), HasSubstr("link to rank 1"));
  peer.join();
}

// The other end is a bare link that first sends a message with a wrong number.
TEST(MeasureLink, AMessageOutOfOrderIsReported) {
  ConnectionPair pair_of_connections;
  comm::Notifier notifier;
  const auto link = pair_of_connections.one.open(1, 1, notifier);
  std::array<std::byte, 64> message{std::byte{5}};
  std::thread peer([&] { link->send(message.data(), message.size()); });
  EXPECT_THAT(error_of([&] { measure_link(pair_of_connections.zero, 1, false, 0.1); }),
              HasSubstr("expected message 0, got 5"));
  peer.join();
}

TEST(MeasureRates, MeasuredRatesArePlausible) {
  const CostTable rates = measure_rates(1);
  for (double rate : {rates.matmul_flops, rates.conv_flops, rates.memory_bytes}) {
    EXPECT_GT(rate, 1e7);
    EXPECT_LT(rate, 1e14);
  }
  EXPECT_EQ(rates.call, CostTable().call);
}

TEST(MeasureKernels, EveryRateHasSamplesOfItsClass) {
  std::array<int, rate_count> samples{};
  for (const Sample& sample : kernel_samples(1)) {
    ++samples[sample.rate];
    if (sample.rate != functions_rate) { EXPECT_EQ(sample.rate, rate_of(sample.work)) << print(sample.call); }
  }
  for (std::size_t rate = 0; rate < rate_count; ++rate) EXPECT_GT(samples[rate], 0) << rate_name(rate);
  EXPECT_EQ(samples[functions_rate], 1);
}

TEST(MeasureKernels, ACallIsTimedAndACallWithoutAKernelIsReported) {
  for (const Sample& sample : kernel_samples(1)) {
    if (sample.work.bytes > 1e6) continue;
    const double seconds = seconds_of(sample.call, 1e-4);
    EXPECT_GT(seconds, 1e-10) << print(sample.call);
    EXPECT_LT(seconds, 1) << print(sample.call);
  }
  CallSpec call;
  call.op = "nothing";
  EXPECT_THAT(error_of([&] { seconds_of(call, 1e-4); }), HasSubstr("no kernel runs nothing"));
}

// The bound is loose, so that it also holds on a busy machine.
TEST(MeasureKernels, ALinkWithinAProcessHasACost) {
  CostTable costs;
  costs.rates.fill(1e12);
  measure_local_link(costs);
  EXPECT_NO_THROW(costs.check());
  ASSERT_EQ(costs.axis_links.size(), 1u);
  EXPECT_EQ(costs.axis_links[0].first, "local");
  EXPECT_LT(costs.axis_links[0].second.alpha, 0.1);
  EXPECT_LE(costs.memory_bytes, 1e12);
}

TEST(Doctor, AllPairsOfFewRanksAndSomePairsOfManyRanksAreMeasured) {
  EXPECT_THAT(pairs_of(3), ElementsAre(std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)));
  EXPECT_EQ(pairs_of(32).size(), 32u * 31 / 2);
  const auto pairs = pairs_of(100);
  EXPECT_EQ(pairs.size(), 99u + 98 + 96 + 92 + 84 + 68 + 36);
}

TEST(Doctor, APrintedResultParsesToTheSameResult) {
  PairResult result{3, 12, "tcp", {{1.0 / 3, 2e-10}, -0.5, 1e-5}, "one\ntwo"};
  const PairResult parsed = parse_pair(print(result));
  EXPECT_EQ(std::tuple(parsed.lower, parsed.higher, parsed.link, parsed.broken), std::tuple(3, 12, "tcp", "one\ntwo"));
  EXPECT_EQ(parsed.measure.cost, result.measure.cost);
  EXPECT_EQ(std::pair(parsed.measure.clock, parsed.measure.clock_error), std::pair(-0.5, 1e-5));
  result.broken = "";
  EXPECT_EQ(parse_pair(print(result)).broken, "");
  EXPECT_THROW(parse_pair("1\n2\n"), Error);
}

TEST(Doctor, TheCostOfAClassIsTheMedianOfItsPairs) {
  auto pair = [](const char* link, double alpha, double beta, const char* broken = "") {
    return PairResult{0, 1, link, {{alpha, beta}, 0, 0}, broken};
  };
  EXPECT_THAT(class_costs({pair("tcp", 3, 30), pair("shm", 1, 10), pair("tcp", 2, 50), pair("tcp", 9, 10),
                           pair("tcp", 0, 0, "no"), pair("tcp", 0, 0, "no")}),
              ElementsAre(std::pair("shm", LinkCost{1, 10}), std::pair("tcp", LinkCost{3, 30})));
  EXPECT_THAT(class_costs({pair("", 0, 0, "no")}), IsEmpty());
}

#if defined(__x86_64__)
// Compares the result with the flags in /proc/cpuinfo.
TEST(Doctor, TheInstructionSetOfTheProcessorIsReported) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && line.rfind("flags", 0) != 0) {}
  line += " ";
  const auto has = [&](const char* flag) { return line.find(cat(" ", flag, " ")) != line.npos; };
  const char* level = has("avx512f") && has("avx512bw") ? "x86-64-v4"
                      : has("avx2") && has("fma")       ? "x86-64-v3"
                                                        : "x86-64-v2";
  EXPECT_THAT(facts_of_this_process().processor, EndsWith(cat(", ", level)));
}
#endif

TEST(Doctor, PrintedFactsParseToTheSameFacts) {
  const Facts own = facts_of_this_process(), parsed = parse_facts(print(own));
  EXPECT_EQ(
      std::tuple(parsed.process, parsed.host, parsed.processor, parsed.cpus, parsed.cores, parsed.build, parsed.ports),
      std::tuple(own.process, own.host, own.processor, own.cpus, own.cores, own.build, own.ports));
  EXPECT_GE(own.cores, 1);
  EXPECT_GE(own.cpus.size(), 1u);
  EXPECT_GT(own.memory, 1e8);
  EXPECT_EQ(std::llround(parsed.memory), std::llround(own.memory));
  EXPECT_THROW(parse_facts("x"), Error);
}

TEST(Doctor, ThePortsForLinksAreThoseOfTheKernelsRange) {
  std::ifstream in("/proc/sys/net/ipv4/ip_local_port_range");
  std::string first, last;
  ASSERT_TRUE(in >> first >> last);
  EXPECT_EQ(facts_of_this_process().ports, cat(first, " to ", last));
}

Facts make_facts(const char* host, std::vector<int> cpus, int cores) {
  Facts out;
  out.host = host;
  out.cpus = std::move(cpus);
  out.cores = cores;
  return out;
}

TEST(Doctor, RanksOfOneHostShareItsCores) {
  std::vector<Facts> ranks = {make_facts("a", {0, 1, 2, 3}, 4), make_facts("b", {0, 1, 2, 3}, 4),
                              make_facts("a", {0, 1, 2, 3}, 4), make_facts("a", {0, 1, 2, 3}, 4),
                              make_facts("c", {0, 1, 2, 3}, 2)};
  share_cores(ranks);
  std::vector<int> cores;
  for (const Facts& facts : ranks) cores.push_back(facts.cores);
  EXPECT_THAT(cores, ElementsAre(1, 4, 1, 1, 2)) << "a quota below the fair share must be kept";
}

TEST(Doctor, TheFirstRankThatDiffersIsReported) {
  std::vector<Facts> ranks(3);
  for (int rank = 0; rank < 3; ++rank) ranks[static_cast<std::size_t>(rank)].process = cat("p", rank);
  for (Facts& facts : ranks) facts.build = "one", facts.processor = "v4";
  EXPECT_THAT(differences(ranks), IsEmpty());
  ranks[1].build = ranks[2].build = "two";
  ranks[2].processor = "v3";
  EXPECT_THAT(differences(ranks), ElementsAre("rank 1 (p1) has a different program: two; rank 0 (p0) has one",
                                              "rank 2 (p2) has a different processor: v3; rank 0 (p0) has v4"));
}

}  // namespace
}  // namespace karez::tools
