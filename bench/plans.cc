// How good are the layouts that shard chooses, how well are they proven, and how long does it take? Plans the saved
// cases of bench/plans.
//
//   bench_plans [--json FILE] [CASE…]     plan all cases, or the named ones
//   bench_plans --write FOLDER            trace the graphs of the cases again (the commit must state the reason)
//
// Each row shows the predicted milliseconds of a step, the ratio of this time to the best known one
// (bench/plans/known.txt), the gap, the seconds of canonicalise and shard, the peak memory of shard, and the nodes of
// the traced program. The columns "choices" and "cells" show the size of the search space: the number of layout choices
// of all nodes, and the number of cells in the full cost tables of all values. A value's table has one cell for each
// combination of the choices of the nodes that produce or read the value. The exit code is 1 if a case misses a target
// (see `saved_plan_cases`), or if its search space is smaller than in known.txt.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/models.h"
#include "bench/plan_cases.h"
#include "karez/api/trace/evaluator.h"
#include "karez/base/test_source.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/compile.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/shard_tables.h"
#include "karez/passes/sharding/test_known_optima.h"

namespace {
std::atomic<std::int64_t> allocated{0}, max_allocated{0};
void count(std::int64_t bytes) {
  const std::int64_t total = allocated += bytes;
  if (total > max_allocated) max_allocated = total;
}
}  // namespace

// Counts all allocated bytes.
void* operator new(std::size_t bytes) {
  void* at = std::malloc(bytes);
  if (at == nullptr) throw std::bad_alloc();
  count(static_cast<std::int64_t>(malloc_usable_size(at)));
  return at;
}
void operator delete(void* at) noexcept {
  if (at != nullptr) count(-static_cast<std::int64_t>(malloc_usable_size(at)));
  std::free(at);
}
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }

namespace karez::bench {
namespace {

// Returns the saved cases, then the programs whose optimal cost has a closed form
// (karez/passes/sharding/test_known_optima.h).
std::vector<PlanCase> all_cases() {
  std::vector<PlanCase> out(std::begin(saved_plan_cases), std::end(saved_plan_cases));
  for (const passes::testing::KnownOptimum& form : passes::testing::known_optima::all())
    out.push_back({cat("form-", form.name), cat("forms/", form.name), "", 0, 0, cat("forms/", form.name, ".costs")});
  return out;
}
constexpr double max_over_best = 1.02;

// A transformer whose layers differ in width, with projections between its blocks.
struct MixedGpt : nn::Module {
  static constexpr std::int64_t widths[] = {64, 128, 96};
  Parameter tokens = make_parameter("tokens", {65, 64}, uniform_init(0.1));
  std::vector<std::unique_ptr<GptBlock>> blocks;
  std::vector<std::unique_ptr<nn::Linear>> projections;
  nn::Linear head{*this, "head", 96, 65};
  MixedGpt() {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(std::make_unique<GptBlock>(*this, cat("block", i),
                                                  GptShape{.layers = 3, .width = widths[i], .heads = 4, .length = 16}));
      if (i > 0)
        projections.push_back(std::make_unique<nn::Linear>(*this, cat("between", i), widths[i - 1], widths[i]));
    }
  }
  Tensor operator()(Tensor x) {
    Tensor h = gather(tokens, x);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i > 0) h = (*projections[i - 1])(h);
      h = (*blocks[i])(h);
    }
    return head(reshape(h, {-1, 96}));
  }
};

// Convolutions with residual connections.
struct Residual : nn::Module {
  std::vector<std::unique_ptr<nn::Conv2d>> convolutions;
  nn::Linear head{*this, "head", 32, 10};
  Residual() {
    convolutions.push_back(std::make_unique<nn::Conv2d>(*this, "conv0", 3, 32, 3, nn::ConvShape{.padding = 1}));
    for (int i = 1; i <= 8; ++i)
      convolutions.push_back(
          std::make_unique<nn::Conv2d>(*this, cat("conv", i), 32, 32, 3, nn::ConvShape{.padding = 1}));
  }
  Tensor operator()(Tensor x) {
    Tensor h = relu((*convolutions[0])(x));
    for (int i = 1; i <= 8; i += 2) h = relu(h + (*convolutions[i + 1])(relu((*convolutions[i])(h))));
    return head(mean(h, {2, 3}));
  }
};

template <class Net>
std::string trace_step(Net& net, const Shape& x, DType dtype, std::int64_t labels, const char* mesh = "",
                       const std::vector<PlacementRule>& stages = {}) {
  World world({.devices = Mesh::parse(mesh).size(), .costs = CostTable()});
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor in, Tensor targets) {
                        Tensor loss = cross_entropy(net(in), targets);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = stages});
  step.compile({{dtype, x}, {DType::i32, {labels}}});
  return step.graph_text();
}

void write(const std::string& folder) {
  auto save = [&](const std::string& name, const std::string& text) {
    std::ofstream out(folder + "/" + name + ".graph");
    out << text;
    require(out.good(), folder, ": cannot write ", name);
  };
  for (const std::int64_t layers : {1, 2, 4, 12}) {
    Gpt net({.layers = layers, .width = 64, .heads = 4, .length = 16});
    save(cat("gpt", layers), trace_step(net, {8, 16}, DType::i32, 8 * 16));
  }
  Gpt staged({.layers = 2, .width = 64, .heads = 4, .length = 16});
  save("gpt2_stages",
       trace_step(staged, {8, 16}, DType::i32, 8 * 16, "stage=2,data=2,model=2", {{"block0", 0}, {"block1", 1}}));
  std::filesystem::create_directories(folder + "/forms");
  for (const passes::testing::KnownOptimum& form : passes::testing::known_optima::all()) {
    save(cat("forms/", form.name), print(form.graph));
    std::ofstream(cat(folder, "/forms/", form.name, ".costs")) << form.costs.print();
    std::printf("form-%s %.6f\n", form.name.c_str(), 1e3 * form.seconds());
  }
  Gpt wide({.layers = 1, .width = 1024, .heads = 16, .length = 512});
  save("gpt_wide", trace_step(wide, {8, 512}, DType::i32, 8 * 512));
  MixedGpt mixed;
  save("gpt_mixed", trace_step(mixed, {8, 16}, DType::i32, 8 * 16));
  Residual residual;
  save("resnet", trace_step(residual, {64, 3, 16, 16}, DType::f32, 64));
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  require(ErrorKind::data, in.good(), file, ": cannot be read");
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

// The best known milliseconds of a case, and its search space: choices and cells.
struct KnownCase {
  double best_cost = 0, choices = 0, cells = 0;
};
std::map<std::string, KnownCase> parse_known(const std::string& text) {
  std::map<std::string, KnownCase> known_costs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    KnownCase row;
    require(ErrorKind::data, static_cast<bool>(words >> name >> row.best_cost >> row.choices >> row.cells),
            "known.txt: expected CASE MILLISECONDS CHOICES CELLS, got '", line, "'");
    known_costs[name] = row;
  }
  return known_costs;
}

KnownCase search_space(const passes::Compilation& c) {
  KnownCase space;
  ById<NodeId, double> count;
  const passes::SumRules rules(c.graph);
  for (NodeId n : c.graph.nodes.ids()) {
    count.push_back(static_cast<double>(passes::choices_of(c.graph, n, c.options.costs, rules).size()));
    space.choices += count.back();
  }
  auto consumers = passes::consumer_layouts(c.graph);
  for (ValueId v : consumers.ids()) {
    std::set<NodeId> nodes = {consumers[v].producer};
    for (const auto& use : consumers[v].uses) nodes.insert(use.node);
    nodes.insert(consumers[v].stored_as_outputs_of.begin(), consumers[v].stored_as_outputs_of.end());
    double cells = 1;
    for (NodeId n : nodes) cells *= count[n];
    space.cells += cells;
  }
  return space;
}

bool plan_case(const PlanCase& test_case, const std::string& folder,
               const std::map<std::string, KnownCase>& known_costs, std::FILE* json) {
  const OpTable ops = all_ops();
  passes::Compilation c;
  c.graph = parse_graph(read(folder + "/" + test_case.graph + ".graph"), ops);
  if (!test_case.mesh.empty()) {
    require(c.graph.meshes.size() == 1, test_case.graph, " has ", c.graph.meshes.size(), " meshes");
    c.graph.meshes[0] = Mesh::parse(test_case.mesh);
  }
  const KernelTable kernels(cpu_kernels());
  c.ops = &ops;
  c.catalog = &kernels;
  c.evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));
  c.options.costs = CostTable::parse(read(folder + "/" + test_case.costs));
  const auto begin = std::chrono::steady_clock::now();
  passes::run_passes(c, {"unroll"});
  const std::size_t nodes = c.graph.nodes.size();
  passes::run_passes(c, {"canonicalise"});
  const KnownCase space = search_space(c);
  const std::int64_t allocated_before = allocated;
  max_allocated = allocated_before;
  passes::run_passes(c, {"shard"});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double bytes = static_cast<double>(max_allocated - allocated_before);

  const double gap = 100 * (c.cost - c.cost_bound) / c.cost;
  const auto at = known_costs.find(test_case.name);
  const double ratio = at == known_costs.end() ? NAN : 1e3 * c.cost / at->second.best_cost;
  const double max_seconds =
      test_case.max_seconds > 0 ? test_case.max_seconds : 0.5 + 3e-3 * static_cast<double>(nodes);
  std::string missed;
  if (at == known_costs.end()) missed += " unknown";
  if (ratio > max_over_best) missed += " cost";
  if (gap > test_case.max_gap + 1e-9) missed += " gap";
  if (seconds > max_seconds) missed += " seconds";
  if (bytes > test_case.max_bytes) missed += " bytes";
  if (at != known_costs.end() && (space.choices < at->second.choices || space.cells < at->second.cells * (1 - 1e-3)))
    missed += " space";
  std::printf("%-19s %-22s %11.6f %8.5f %8.3f %7.2f %7.1f %6zu %7.0f %10.4g  %s%s%s\n", test_case.name.c_str(),
              print(c.graph.meshes.back()).c_str(), 1e3 * c.cost, ratio, gap, seconds, bytes / 1e6, nodes,
              space.choices, space.cells, c.shard_report.c_str(), missed.empty() ? "" : "  MISSES", missed.c_str());
  std::fflush(stdout);
  if (json != nullptr)
    std::fprintf(json,
                 "{\"case\": \"%s\", \"milliseconds\": %.9f, \"gap\": %.6f, \"optimal\": %s, \"seconds\": %.3f, "
                 "\"bytes\": %.0f}\n",
                 test_case.name.c_str(), 1e3 * c.cost, gap, c.optimal ? "true" : "false", seconds, bytes);
  return missed.empty();
}

int run(const std::vector<std::string>& words) {
  const std::string folder = base::source_folder() / "bench/plans";
  std::set<std::string> requested;
  std::FILE* json = nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--write" && i + 1 < words.size()) return write(words[i + 1]), 0;
    if (words[i] == "--json" && i + 1 < words.size()) {
      json = std::fopen(words[++i].c_str(), "w");
      require(json != nullptr, words[i], ": cannot be written");
      continue;
    }
    require(words[i][0] != '-', "usage: bench_plans [--json FILE] [CASE…] | --write FOLDER");
    requested.insert(words[i]);
  }
  const auto known_costs = parse_known(read(folder + "/known.txt"));
  std::printf("%-19s %-22s %11s %8s %8s %7s %7s %6s %7s %10s\n", "case", "mesh", "step, ms", "of best", "gap, %",
              "seconds", "MB", "nodes", "choices", "cells");
  bool targets_met = true;
  const bool plan_all = requested.empty();
  for (const PlanCase& test_case : all_cases())
    if (plan_all || requested.erase(test_case.name) != 0)
      targets_met &= plan_case(test_case, folder, known_costs, json);
  if (json != nullptr) std::fclose(json);
  for (const std::string& name : requested) require(name.empty(), "unknown case '", name, "'");
  return targets_met ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) {
  try {
    return karez::bench::run({words + 1, words + count});
  } catch (const karez::Error& error) {
    std::fprintf(stderr, "bench_plans: %s\n", error.what());
    return 2;
  }
}
