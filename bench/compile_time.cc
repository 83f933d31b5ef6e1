// How long does planning take, does the time grow linearly with the program, and is it independent of the world size?
//
//   bench_compile_time [--json FILE] [--long]     --long: also plan 100,000 nodes, which takes minutes
//   bench_compile_time MESH NODES                 compile one plan, and print the seconds of its passes
//
// Compiles chains of small dense layers with Adam, of increasing size, for rank 0 of four ranks with one device each.
// Prints the seconds of each pass, and the exponent of their growth from 100 nodes on (the slope of a line through the
// logarithms; target 1.1). Then compares the time for a program of 1,000 nodes on 1,024 ranks with the time on four
// ranks (target of the ratio: 1.2), and measures the time to read the plan for four ranks from the plan cache (target
// 0.1 s).
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "bench/models.h"
#include "bench/report.h"
#include "karez/api/state/plan_cache.h"
#include "karez/api/trace/evaluator.h"
#include "karez/api/trace/trace.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/place.h"
#include "karez/passes/pipeline.h"

namespace karez::bench {
namespace {

constexpr double max_exponent = 1.1, max_growth = 1.2, max_hit_seconds = 0.1;
constexpr int rounds = 12;
constexpr std::int64_t width = 32, batch = 2048;

struct DeepMlp : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  explicit DeepMlp(int count) {
    for (int i = 0; i < count; ++i) layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), width, width));
  }
  Tensor operator()(Tensor x) {
    for (auto& layer : layers) x = relu((*layer)(x));
    return x;
  }
};

Graph trace_mlp(const OpTable& ops, int layers) {
  DeepMlp net(layers);
  optim::Adam adam(net.parameters(), {.lr = 1e-3});
  Trace trace(ops, {.name = "step", .mesh = Mesh::parse("data=1")});
  Trace::Scope scope(trace);
  Tensor loss =
      cross_entropy(net(trace.input("arg0", {DType::f32, {batch, width}})), trace.input("arg1", {DType::i32, {batch}}));
  adam.step(grad(loss, net.parameters()));
  trace.finish({loss});
  return place(std::move(trace.graph), ops);
}

// Returns a graph of about `nodes` nodes.
Graph graph_of_size(const OpTable& ops, double nodes) {
  const double two_layers = static_cast<double>(trace_mlp(ops, 2).nodes.size()),
               four_layers = static_cast<double>(trace_mlp(ops, 4).nodes.size()),
               nodes_per_layer = (four_layers - two_layers) / 2;
  return trace_mlp(ops, std::max(1, static_cast<int>(std::lround((nodes - two_layers) / nodes_per_layer)) + 2));
}

struct Planner {
  OpTable ops = all_ops();
  KernelTable kernels{cpu_kernels()};
  passes::Evaluate evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));

  passes::Compilation compilation_of(const Graph& graph, const std::string& mesh) const {
    passes::Compilation c;
    c.graph = graph;
    Mesh& target = c.graph.meshes[0];
    target = Mesh::parse(mesh);
    for (int rank = 0; rank < target.size(); ++rank) target.devices[static_cast<std::size_t>(rank)] = {rank, 0};
    c.options.world = target.size();
    c.ops = &ops, c.catalog = &kernels, c.evaluate = evaluate;
    return c;
  }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct CompileTimes {
  double nodes = 0, total_seconds = INFINITY;
  std::map<std::string, double> passes;
};

// Compiles the graph, and replaces `fastest` if this run was faster. Other work on the machine only adds time.
void compile_once(const Planner& planner, const Graph& graph, const std::string& mesh, CompileTimes& fastest) {
  passes::Compilation c = planner.compilation_of(graph, mesh);
  const auto begin = std::chrono::steady_clock::now();
  passes::compile(c);
  const double total_seconds = seconds_since(begin);
  if (total_seconds >= fastest.total_seconds) return;
  fastest = {static_cast<double>(graph.nodes.size()), total_seconds, {}};
  for (const auto& pass : c.passes) fastest.passes[pass.name] = pass.seconds;
}
CompileTimes compile_times(const Planner& planner, const Graph& graph, const std::string& mesh, int times) {
  CompileTimes fastest;
  for (int i = 0; i < times; ++i) compile_once(planner, graph, mesh, fastest);
  return fastest;
}

// Returns the slope of a line through the logarithms of the points.
double exponent(const std::vector<CompileTimes>& points, const std::function<double(const CompileTimes&)>& seconds) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const CompileTimes& point : points) {
    const double a = std::log(point.nodes), b = std::log(std::max(seconds(point), 1e-6));
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

double print_growth(const Planner& planner, const std::string& mesh, const std::vector<Graph>& graphs) {
  std::vector<CompileTimes> points;
  for (const Graph& graph : graphs)
    points.push_back(compile_times(planner, graph, mesh, graph.nodes.size() < 2000 ? 3 : 1));
  const double slope = exponent(points, [](const CompileTimes& t) { return t.total_seconds; });
  std::printf("%s\n  %-14s", mesh.c_str(), "nodes");
  for (const CompileTimes& point : points) std::printf(" %10.0f", point.nodes);
  std::printf("   exponent\n  %-14s", "all, s");
  for (const CompileTimes& point : points) std::printf(" %10.4f", point.total_seconds);
  std::printf("   %8.2f\n", slope);
  for (const passes::Pass& pass : passes::pipeline()) {
    auto seconds = [&](const CompileTimes& t) { return t.passes.count(pass.name) > 0 ? t.passes.at(pass.name) : 0; };
    std::printf("  %-14s", pass.name);
    for (const CompileTimes& point : points) std::printf(" %10.4f", seconds(point));
    std::printf("   %8.2f\n", exponent(points, seconds));
  }
  std::fflush(stdout);
  return slope;
}

int compile_one(const std::string& mesh, double nodes) {
  const Planner planner;
  const CompileTimes plan = compile_times(planner, graph_of_size(planner.ops, nodes), mesh, 1);
  for (const passes::Pass& pass : passes::pipeline())
    if (plan.passes.count(pass.name) > 0) std::printf("%-14s %10.4f\n", pass.name, plan.passes.at(pass.name));
  std::printf("%s, %.0f nodes: %.4f s\n", mesh.c_str(), plan.nodes, plan.total_seconds);
  return 0;
}

double cache_read_seconds(const Planner& planner, const Graph& graph) {
  std::string folder = (std::filesystem::temp_directory_path() / "karez-compile-time-XXXXXX").string();
  require(::mkdtemp(folder.data()) != nullptr, "cannot create ", folder);
  double fastest = INFINITY;
  for (int i = 0; i < 6; ++i) {
    PlanCache cache(folder, false);
    passes::Compilation c = planner.compilation_of(graph, "data=2,model=2");
    const auto begin = std::chrono::steady_clock::now();
    cache.compile(c);
    if (i == 0) continue;
    require(c.passes.size() == 1, "the plan was not read from the cache");
    fastest = std::min(fastest, seconds_since(begin));
  }
  std::filesystem::remove_all(folder);
  return fastest;
}

int run(bool include_largest, const std::string& json) {
  const Planner planner;
  std::vector<Graph> graphs;
  for (double nodes : {1e2, 1e3, 3e3, 1e4, 1e5})
    if (include_largest || nodes < 1e5) graphs.push_back(graph_of_size(planner.ops, nodes));
  double slope = 0;
  for (const char* mesh : {"data=4", "data=2,model=2"}) slope = std::max(slope, print_growth(planner, mesh, graphs));
  CompileTimes small, large;
  for (int round = 0; round < rounds; ++round) {  // alternates, because the speed of the machine changes
    compile_once(planner, graphs[1], "data=2,model=2", small);
    compile_once(planner, graphs[1], "data=512,model=2", large);
  }
  const double world = large.total_seconds / small.total_seconds, hit = cache_read_seconds(planner, graphs[1]);
  std::printf("rank 0 of 1,024 and rank 0 of 4: %.4f s and %.4f s, ratio %.3f (target %.1f)\n", large.total_seconds,
              small.total_seconds, world, max_growth);
  std::printf("a plan of %zu nodes read from the cache: %.1f ms (target %.0f)\n", graphs[1].nodes.size(), 1e3 * hit,
              1e3 * max_hit_seconds);
  const double worst = std::max({slope / max_exponent, world / max_growth, hit / max_hit_seconds});
  write_json(
      json, cat("{\"name\": \"compile_time\", \"exponent\": ", slope, ", \"world\": ", world, ", \"hit\": ", hit, "}"));
  std::printf("exponent %.3f (target %.1f)\ncompile_time: worst ratio %.3f (target 1.0)\n", slope, max_exponent, worst);
  return worst <= 1 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) {
  try {
    if (count == 3 && words[1][0] != '-') return karez::bench::compile_one(words[1], std::stod(words[2]));
    bool include_largest = false;
    int json_words = 1;  // the words for json_option
    for (int i = 1; i < count; ++i) {
      if (std::strcmp(words[i], "--long") == 0) include_largest = true;
      else words[json_words++] = words[i];
    }
    return karez::bench::run(include_largest, karez::bench::json_option(json_words, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compile_time: %s\n", error.what());
    return 1;
  }
}
