// Does the work of one rank grow with the world? Compares rank 0 of 4 ranks with rank 0 of 1,024 ranks, for the small
// CNN with a batch of 64 per rank. The other ranks do not run.
//
//   bench_world_size [--json FILE]     measure compilation and loading, then the agreement; the target of the ratios of
//                                      time and of peak memory is 1.5
//   bench_world_size --agree           measure only the agreement on a launch on rank 0; target: 5 ms at 1,024 ranks
//
// The first part compiles a step with Adam for rank 0 (all passes and verify) and loads its plan without threads, with
// links that have no peer. Both world sizes alternate, seven times each, in separate processes. The second part
// measures rank 0's agreement (agreement.h, its thread and its ends of links) from the first message about the start of
// a launch to the last message about its end. The other ranks are simulated in this process: their messages arrive one
// by one, and messages to them are discarded. Sockets are not included.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bench/models.h"
#include "bench/report.h"
#include "karez/api/trace/evaluator.h"
#include "karez/control/test_fake_ranks.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/compile.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/load/plan_loader.h"

namespace karez::bench {
namespace {

constexpr int small = 4, large = 1024, pairs = 7;
constexpr std::int64_t batch_of_rank = 64;
constexpr double target = 1.5;

// A link to a rank that does not exist.
class NullLink : public comm::Link {
 public:
  void post_receive(std::byte*, std::int64_t) override {}
  void send(const std::byte*, std::int64_t) override {}
  std::int64_t received() const override { return 0; }
  std::int64_t sent() const override { return 0; }
  std::int64_t bytes_sent() const override { return 0; }
  int depth() const override { return 8; }
};

// Returns the graph of the step, traced for one device.
std::string trace_cnn(int ranks) {
  World world;
  Cnn net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh("data=1"), [&](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(net(x), y);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  const std::int64_t batch = batch_of_rank * ranks;
  step.compile({{DType::f32, {batch, 1, 28, 28}}, {DType::i32, {batch}}});
  return print(step.graph());
}

struct LoadCost {
  double seconds = 0, megabytes = 0;
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

LoadCost compile_and_load(const std::string& text, int ranks) {
  const OpTable ops = all_ops();
  const KernelTable kernels(cpu_kernels());
  passes::Compilation c;
  c.graph = parse_graph(text, ops);
  const double peak_before = peak_megabytes();
  const auto begin = std::chrono::steady_clock::now();
  c.graph.meshes[0] = Mesh::of({{"data", ranks}});
  for (int rank = 0; rank < ranks; ++rank) c.graph.meshes[0].devices[static_cast<std::size_t>(rank)] = {rank, 0};
  c.ops = &ops;
  c.catalog = &kernels;
  c.evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));
  c.options.world = ranks;
  passes::compile(c);
  verify(c.plan);
  auto device = make_device("0.0", "cpu");
  runtime::VariableStore variables;
  runtime::Mailbox box;
  runtime::LoadOptions options;
  options.kernels = &kernels;
  options.device = [&](const PlanDevice&) -> Device& { return *device; };
  options.boxes = {&box, &box};
  options.connect = [](int, const std::string&, comm::Notifier&) { return std::make_unique<NullLink>(); };
  const auto loaded = runtime::prepare(c.plan, variables, options);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          peak_megabytes() - peak_before};
}

constexpr int world_sizes[] = {16, 64, 256, 1024};
constexpr double agree_target = 5e-3;

struct AgreementCost {
  double median = 0, worst = 0;  // seconds of a launch
  double bytes = 0;              // in both directions, per other rank
};

AgreementCost measure_agreement(int ranks) {
  constexpr int warm_up_launches = 5, launches = 101;
  control::FakeRanks world(ranks);
  const std::string call = "a call of function 'step' (train.py:12)";
  for (int i = 0; i < warm_up_launches; ++i) world.launch(call, 7);
  const control::FakeRanks::Counts counts_before = world.counts();
  std::vector<double> seconds;
  for (int i = 0; i < launches; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    world.launch(call, 7);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const control::FakeRanks::Counts counts_after = world.counts();
  return {median(seconds), *std::max_element(seconds.begin(), seconds.end()),
          static_cast<double>(counts_after.bytes - counts_before.bytes) / (launches * (ranks - 1))};
}

// Prints all sizes, and returns the time of the largest world.
double report_agreement() {
  double largest_world_seconds = 0;
  for (int ranks : world_sizes) {
    const AgreementCost cost = measure_agreement(ranks);
    std::printf(
        "rank 0 of %4d agrees on a launch in %7.3f ms (worst of 101: %.3f), %.2f us per rank; to and from each rank "
        "%.0f "
        "bytes\n",
        ranks, 1e3 * cost.median, 1e3 * cost.worst, 1e6 * cost.median / (ranks - 1), cost.bytes);
    largest_world_seconds = cost.median;
  }
  std::printf("world_size: %.3f ms to agree at %d ranks (target %.1f)\n", 1e3 * largest_world_seconds, large,
              1e3 * agree_target);
  return largest_world_seconds;
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs this program in a separate process with the file and the number of ranks.
LoadCost measure_in_process(const char* program, const std::string& file, int ranks) {
  const std::string command = cat("'", program, "' --of ", ranks, " '", file, "'");
  std::FILE* out = popen(command.c_str(), "r");
  LoadCost cost;
  const bool parsed = out != nullptr && std::fscanf(out, "%lf %lf", &cost.seconds, &cost.megabytes) == 2;
  const int status = out == nullptr ? -1 : pclose(out);
  require(parsed && status == 0, "'", command, "' ended with ", status);
  return cost;
}

int run(const char* program, const std::string& json) {
  const std::string folder = cat("/tmp/karez-world-size-", getpid());
  std::vector<double> seconds[2], megabytes[2], time_ratios, memory_ratios;
  const int ranks[2] = {small, large};
  for (int side = 0; side < 2; ++side) {
    std::ofstream(folder + (side == 0 ? "a" : "b")) << trace_cnn(ranks[side]);
    measure_in_process(program, folder + (side == 0 ? "a" : "b"), ranks[side]);  // warms the file cache
  }
  for (int pair = 0; pair < pairs; ++pair) {
    for (int side = 0; side < 2; ++side) {
      const LoadCost cost = measure_in_process(program, folder + (side == 0 ? "a" : "b"), ranks[side]);
      seconds[side].push_back(cost.seconds), megabytes[side].push_back(cost.megabytes);
    }
    time_ratios.push_back(seconds[1].back() / seconds[0].back()),
        memory_ratios.push_back(megabytes[1].back() / megabytes[0].back());
  }
  for (const char* side : {"a", "b"}) unlink((folder + side).c_str());
  for (int side = 0; side < 2; ++side)
    std::printf("rank 0 of %4d: %8.1f ms, %6.2f MB\n", ranks[side], 1e3 * median(seconds[side]),
                median(megabytes[side]));
  const double max_ratio = std::max(median(time_ratios), median(memory_ratios));
  const double agree_seconds = report_agreement();
  write_json(json, cat("{\"name\": \"world_size\", \"time\": ", median(time_ratios),
                       ", \"memory\": ", median(memory_ratios), ", \"target\": ", target,
                       ", \"agree_seconds\": ", agree_seconds, ", \"agree_target\": ", agree_target, "}"));
  std::printf("time %.3f, peak memory %.3f of that of rank 0 of %d\nworld_size: worst ratio %.3f (target %.1f)\n",
              median(time_ratios), median(memory_ratios), small, max_ratio, target);
  return max_ratio <= target && agree_seconds <= agree_target ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) {
  using namespace karez::bench;
  try {
    if (count == 4 && std::strcmp(words[1], "--of") == 0) {
      const LoadCost cost = compile_and_load(read(words[3]), std::atoi(words[2]));
      return std::printf("%.6f %.3f\n", cost.seconds, cost.megabytes) > 0 ? 0 : 1;
    }
    if (count == 2 && std::strcmp(words[1], "--agree") == 0) return report_agreement() <= agree_target ? 0 : 1;
    return run(words[0], json_option(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "world_size: %s\n", error.what());
    return 1;
  }
}
