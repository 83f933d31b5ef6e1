// Tests of training equivalence across processes: a program on several ranks, each a separate process, gives the losses
// of a single process, over shared memory, TCP and UCX.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>

#include "karez/api/ranks/test_ranks.h"
#include "karez/base/error.h"
#include "karez/comm/transport/ucx_wire.h"
#include "karez/karez.h"
#include "karez/plan/stream_assignment.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr int steps = 20;

struct SmallCnn : nn::Module {
  SmallCnn() : Module(DType::f64) {}
  nn::Conv2d conv1{*this, "conv1", 1, 6, 3}, conv2{*this, "conv2", 6, 8, 3};
  nn::Linear fc1{*this, "fc1", 8 * 2 * 2, 24}, fc2{*this, "fc2", 24, 10};
  nn::Dropout drop{*this, "drop", 0.25};
  Tensor operator()(Tensor x) {
    x = avg_pool(tanh(conv1(x)), 2);
    x = avg_pool(tanh(conv2(x)), 2);
    return fc2(drop(tanh(fc1(flatten(x)))));
  }
};

struct Setting {
  std::string mesh;
  int ranks = 1, devices_per_rank = 1;
  bool by_rule = false, stages = false;
  int microbatches = 1;
  double beta = 0;         // for the planner: seconds per byte of a link; 0 means the default
  std::int64_t parts = 0;  // if not 0: rank 0 of two ranks passes this number of rows, and rank 1 passes the others
};

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> settings_by_name = {
      {"one", {""}},
      {"data", {"data=4", 4}},
      {"model", {"model=4", 4, 1, true}},
      {"hybrid", {"data=2,model=2", 4, 1, true}},
      {"free", {"data=2,model=2", 4}},
      {"two_by_two", {"data=2,model=2", 2, 2, true}},
      {"two_by_two_data", {"data=4", 2, 2}},
      {"pipeline", {"stage=2", 2, 1, false, true}},
      {"pipeline_micro", {"stage=2", 2, 1, false, true, 3}},
      {"micro", {"data=4", 4, 1, false, false, 3}},
      {"slow_links", {"data=2,model=2", 2, 2, true, false, 1, 1e-5}},
      {"parts", {"data=2", 2, 1, false, false, 1, 0, 8}},
  };
  return settings_by_name;
}

const std::vector<LayoutRule> rules = {{"conv*.weight", P("model")},
                                       {"conv*.bias", P("model")},
                                       {"fc1.weight", P("model", nullptr)},
                                       {"fc1.bias", P("model")},
                                       {"fc2.weight", P(nullptr, "model")}};

std::int64_t total_sent_bytes(const Counters& counters) {
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : counters.sent_bytes) sum += bytes;
  return sum;
}

struct Outcome {
  std::vector<double> losses, weight;
  std::int64_t planned = 0, counted = 0;  // bytes of this rank
};

template <class T> HostArray rows_of(const HostArray& all_rows, std::int64_t from, std::int64_t to) {
  TensorType type = all_rows.type();
  const std::int64_t row = type.count() / type.shape[0];
  type.shape[0] = to - from;
  HostArray out(type);
  std::copy_n(all_rows.data<T>().begin() + from * row, (to - from) * row, out.data<T>().begin());
  return out;
}

// Runs the training loop of a rank, or of a single process.
Outcome train(const Setting& run, const std::optional<Ranks>& own_ranks) {
  CostTable costs;
  if (run.beta > 0) costs.link.beta = run.beta;
  World world({.devices = run.devices_per_rank, .seed = 5, .costs = costs, .ranks = own_ranks});
  SmallCnn net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  FunctionOptions options{.microbatches = run.microbatches};
  if (run.by_rule) options.rules = rules;
  if (run.stages) options.placements = {{"conv*", 0}, {"fc*", 1}, {"drop", 1}};
  auto step = compile(
      world.mesh(run.mesh),
      [&](Tensor x, Tensor y) {
        Tensor loss = cross_entropy(net(x), y);
        adam.step(grad(loss, net.parameters()));
        return loss;
      },
      options);
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Outcome out;
  std::vector<Future> losses;
  std::int64_t previous_bytes = 0;
  constexpr std::int64_t batch = 15;  // uneven on four devices, divisible by three
  const char* killed_rank = std::getenv("KAREZ_TEST_DIES");
  for (int s = 0; s < steps; ++s) {
    if (s == 5 && killed_rank != nullptr && own_ranks && own_ranks->rank == std::stoi(killed_rank)) raise(SIGKILL);
    HostArray x(TensorType{DType::f64, {batch, 1, 14, 14}}), y(TensorType{DType::i32, {batch}});
    for (double& value : x.data<double>()) value = normal(random);
    for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 10);
    if (run.parts > 0) {
      const std::int64_t from = own_ranks->rank == 0 ? 0 : run.parts, to = own_ranks->rank == 0 ? run.parts : batch;
      losses.push_back(
          step(local(rows_of<double>(x, from, to), batch), local(rows_of<std::int32_t>(y, from, to), batch)));
    } else {
      losses.push_back(step(x, y));
    }
    if (s > 0) continue;
    losses.back().wait();  // the initialisation has ended
    previous_bytes = total_sent_bytes(world.counters());
  }
  for (const Future& loss : losses) loss.wait();
  out.counted = total_sent_bytes(world.counters()) - previous_bytes;
  require((plan::assign_streams(step.plan(), 1)[plan::StreamId(1)] == 1) == (run.beta > 0),
          "transfers must have a separate worker if, and only if, links are slow");
  for (const auto& transfer : step.plan().transfers) out.planned += (steps - 1) * transfer.bytes;
  for (const Future& loss : losses) out.losses.push_back(loss.item());
  const HostArray weight = world.read("conv2.weight");
  out.weight.assign(weight.data<double>().begin(), weight.data<double>().end());
  return out;
}

std::string text_of(const Outcome& outcome) {
  std::ostringstream out;
  out << std::hexfloat << outcome.planned << " " << outcome.counted << " " << outcome.losses.size();
  for (double loss : outcome.losses) out << " " << loss;
  for (double value : outcome.weight) out << " " << value;
  return out.str();
}

Outcome outcome_of(const std::string& text) {
  std::istringstream in(text);
  Outcome out;
  std::size_t losses = 0;
  in >> out.planned >> out.counted >> losses;
  for (std::string word; in >> word;)
    (out.losses.size() < losses ? out.losses : out.weight).push_back(std::strtod(word.c_str(), nullptr));
  return out;
}

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Runs as one rank, started by the tests below, and writes its outcome to a file.
TEST(Processes, DISABLED_Rank) {
  Ranks own_ranks{.rank = std::stoi(from_environment("KAREZ_TEST_RANK")),
                  .ranks = std::stoi(from_environment("KAREZ_TEST_RANKS")),
                  .store = from_environment("KAREZ_TEST_STORE"),
                  .token = from_environment("KAREZ_TEST_TOKEN")};
  std::string text;
  try {
    text = text_of(train(settings().at(from_environment("KAREZ_TEST_SETTING")), own_ranks));
  } catch (const Error& error) { text = cat("error: ", error.what()); }
  std::ofstream(from_environment("KAREZ_TEST_OUT")) << text;
}

// Starts this program as one rank.
pid_t start_rank(const Ranks& world_ranks, int rank, const std::string& setting, const std::string& link,
                 const std::string& out, const std::string& extra_variable = "KAREZ_TEST=1") {
  std::vector<std::string> environment = {cat("KAREZ_TEST_RANK=", rank),
                                          cat("KAREZ_TEST_RANKS=", world_ranks.ranks),
                                          cat("KAREZ_TEST_STORE=", world_ranks.store),
                                          cat("KAREZ_TEST_TOKEN=", world_ranks.token),
                                          cat("KAREZ_TEST_SETTING=", setting),
                                          cat("KAREZ_TEST_OUT=", out),
                                          cat("KAREZ_LINK=", link),
                                          extra_variable};
  for (char** at = environ; *at != nullptr; ++at)
    if (std::strncmp(*at, "KAREZ_LINK=", 11) != 0 && std::strncmp(*at, "GTEST_", 6) != 0) environment.emplace_back(*at);
  std::vector<std::string> arguments = {"rank", "--gtest_filter=Processes.DISABLED_Rank",
                                        "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> argv, envp;
  for (std::string& text : arguments) argv.push_back(text.data());
  for (std::string& text : environment) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int redirected = dup2(STDERR_FILENO, STDOUT_FILENO);
    if (redirected >= 0) execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  return pid;
}

std::vector<Outcome> outcomes(const std::string& setting, const std::string& link) {
  const Setting& run = settings().at(setting);
  const Ranks world_ranks = test_rendezvous(run.ranks);
  const auto folder = std::filesystem::temp_directory_path() / cat("karez-ranks-", getpid(), "-", setting, "-", link);
  std::filesystem::create_directories(folder);
  std::vector<pid_t> processes;
  auto file = [&](int rank) { return (folder / cat(rank)).string(); };
  for (int rank = 0; rank < run.ranks; ++rank)
    processes.push_back(start_rank(world_ranks, rank, setting, link, file(rank)));
  std::vector<Outcome> outcomes_of_ranks;
  for (int rank = 0; rank < run.ranks; ++rank) {
    int status = 0;
    waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
    std::ifstream in(file(rank));
    const std::string text(std::istreambuf_iterator<char>(in), {});
    EXPECT_NE(text.substr(0, 6), "error:") << "rank " << rank << ": " << text;
    outcomes_of_ranks.push_back(outcome_of(text));
  }
  std::filesystem::remove_all(folder);
  return outcomes_of_ranks;
}

// No rank hangs, and each rank reports the killed rank.
TEST(Processes, AllOtherRanksReportAKilledRankAtOnce) {
  const Ranks world_ranks = test_rendezvous(4);
  for (const char* link : {"shm", "tcp"}) {
    const auto folder = std::filesystem::temp_directory_path() / cat("karez-killed-", getpid(), "-", link);
    std::filesystem::create_directories(folder);
    Ranks link_ranks = world_ranks;
    link_ranks.store += link;
    std::vector<pid_t> processes;
    for (int rank = 0; rank < 4; ++rank)
      processes.push_back(
          start_rank(link_ranks, rank, "data", link, (folder / cat(rank)).string(), "KAREZ_TEST_DIES=2"));
    int status = 0;
    waitpid(processes[2], &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const auto killed_at = std::chrono::steady_clock::now();
    for (int rank : {0, 1, 3}) {
      waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
      std::ifstream in(folder / cat(rank));
      const std::string text(std::istreambuf_iterator<char>(in), {});
      EXPECT_EQ(text.substr(0, 6), "error:") << "rank " << rank;
      EXPECT_NE(text.find("rank 2 ("), std::string::npos) << "rank " << rank << ": " << text;
    }
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed_at).count(), 15)
        << link << ": the ranks must report the killed rank before peer_timeout (30 s)";
    std::filesystem::remove_all(folder);
  }
}

class TrainingEquivalenceOnProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainingEquivalenceOnProcesses, LossesEqualThoseOfOneDeviceWithin1e10OverEveryLink) {
  static const Outcome single_process = train(settings().at("one"), {});
  std::vector<double> first_losses;
  std::vector<const char*> links = {"shm", "tcp"};
  if (comm::has_ucx()) links.push_back("ucx");
  for (const char* link : links) {
    const std::vector<Outcome> outcomes_of_ranks = outcomes(GetParam(), link);
    for (std::size_t rank = 0; rank < outcomes_of_ranks.size(); ++rank) {
      ASSERT_EQ(outcomes_of_ranks[rank].losses.size(), single_process.losses.size()) << link << ", rank " << rank;
      for (std::size_t s = 0; s < single_process.losses.size(); ++s)
        EXPECT_LE(std::abs(outcomes_of_ranks[rank].losses[s] - single_process.losses[s]),
                  1e-10 * std::abs(single_process.losses[s]))
            << link << ", rank " << rank << ", step " << s;
      EXPECT_EQ(outcomes_of_ranks[rank].losses, outcomes_of_ranks[0].losses) << "every rank must read the same losses";
      EXPECT_EQ(outcomes_of_ranks[rank].weight, outcomes_of_ranks[0].weight) << "every rank must read the same weights";
      ASSERT_EQ(outcomes_of_ranks[rank].weight.size(), single_process.weight.size());
      for (std::size_t i = 0; i < single_process.weight.size(); ++i)
        EXPECT_NEAR(outcomes_of_ranks[rank].weight[i], single_process.weight[i], 1e-9) << link;
      EXPECT_EQ(outcomes_of_ranks[rank].planned, outcomes_of_ranks[rank].counted)
          << link << ", rank " << rank << ": the planned bytes must equal the bytes counted at the links";
      EXPECT_GT(outcomes_of_ranks[rank].planned, 0);
    }
    if (first_losses.empty()) first_losses = outcomes_of_ranks[0].losses;
    EXPECT_EQ(outcomes_of_ranks[0].losses, first_losses) << "every transport must give the same losses";
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, TrainingEquivalenceOnProcesses,
                         ::testing::Values("data", "model", "hybrid", "free", "two_by_two", "two_by_two_data",
                                           "pipeline", "pipeline_micro", "micro", "slow_links", "parts"));

}  // namespace
}  // namespace karez::tests
