// How long does the planning of a transformer's forward pass take?
//
//   bench_forward_plans [--json FILE]
//   bench_forward_plans MESH ROUNDS            plan each length ROUNDS times, for profiles
//
// Traces the network of bench/growing_shapes.py (4 layers of width 128) for texts of 4, 8 ... 64 characters, and plans
// each program three times. Prints the median over the lengths of the shortest time, with the times of the passes.
// Targets: 15 ms on one device, 3 s on data=2,model=2.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/models.h"
#include "bench/report.h"
#include "karez/api/trace/evaluator.h"
#include "karez/api/trace/trace.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/place.h"
#include "karez/passes/pipeline.h"

namespace karez::bench {
namespace {

constexpr std::int64_t layers = 4, width = 128, heads = 4, vocabulary = 65, max_length = 64;
constexpr double target_ms[] = {15, 3000};
constexpr const char* meshes[] = {"", "data=2,model=2"};

struct Block : nn::Module {
  Block(Module& parent, const std::string& name) : Module(parent, name) {}
  nn::LayerNorm norm1{*this, "norm1", {width}}, norm2{*this, "norm2", {width}};
  nn::MultiHeadAttention attention{*this, "attention", width, heads, {.causal = true}};
  nn::Linear up{*this, "up", width, 4 * width}, down{*this, "down", 4 * width, width};
  Tensor operator()(Tensor x) {
    x = x + attention(norm1(x));
    return x + down(gelu(up(norm2(x))));
  }
};

struct Network : nn::Module {
  Parameter tokens = make_parameter("tokens", {vocabulary, width}, uniform_init(0.1)),
            places = make_parameter("places", {max_length, width}, uniform_init(0.1));
  std::vector<std::unique_ptr<Block>> blocks;
  nn::LayerNorm norm{*this, "norm", {width}};
  nn::Linear head{*this, "head", width, vocabulary};
  Network() {
    for (std::int64_t i = 0; i < layers; ++i) blocks.push_back(std::make_unique<Block>(*this, cat("block", i)));
  }
  Tensor operator()(Tensor x) {
    Tensor h = gather(tokens, x) + slice(places, {0, 0}, {x.size(1), width});
    for (auto& block : blocks) h = (*block)(h);
    return head(norm(h));
  }
};

struct Planner {
  OpTable ops = all_ops();
  KernelTable kernels{cpu_kernels()};
  passes::Evaluate evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));

  Graph trace(Network& net, std::int64_t length, const std::string& mesh) const {
    Trace trace(ops, {.name = "forward", .mesh = Mesh::parse(mesh)});
    Trace::Scope scope(trace);
    Tensor scores = net(trace.input("arg0", {DType::i32, {1, length}}));
    trace.finish({arg_max(slice(scores, {0, length - 1, 0}, {1, 1, vocabulary}), 2)});
    return place(std::move(trace.graph), ops);
  }

  passes::Compilation compile(const Graph& graph) const {
    passes::Compilation c;
    c.graph = graph;
    c.ops = &ops, c.catalog = &kernels, c.evaluate = evaluate;
    c.options.predict = false;  // as for all expressions outside of functions
    passes::compile(c);
    return c;
  }
};

using Times = std::map<std::string, double>;  // milliseconds by pass, and "all"

Times times_of(const Planner& planner, const Graph& graph) {
  const auto begin = std::chrono::steady_clock::now();
  const passes::Compilation c = planner.compile(graph);
  Times out{{"all", 1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}};
  for (const auto& pass : c.passes) out[pass.name] = 1e3 * pass.seconds;
  return out;
}

std::vector<Graph> graphs_of(const Planner& planner, const std::string& mesh) {
  Network net;
  std::vector<Graph> out;
  for (std::int64_t length = 4; length <= max_length; length += 4) out.push_back(planner.trace(net, length, mesh));
  return out;
}

double print_times(const Planner& planner, const std::string& mesh, double target, int rounds) {
  std::map<std::string, std::vector<double>> ms;
  std::size_t nodes = 0;
  for (const Graph& graph : graphs_of(planner, mesh)) {
    Times best{{"all", INFINITY}};
    for (int round = 0; round < rounds; ++round)
      if (Times times = times_of(planner, graph); times["all"] < best["all"]) best = std::move(times);
    for (const auto& [name, time] : best) ms[name].push_back(time);
    nodes = graph.nodes.size();
  }
  const double all = median(ms["all"]);
  std::printf("%s, %zu nodes: %.2f ms (%.2f to %.2f; target %.0f)%s\n ", mesh.empty() ? "one device" : mesh.c_str(),
              nodes, all, *std::min_element(ms["all"].begin(), ms["all"].end()),
              *std::max_element(ms["all"].begin(), ms["all"].end()), target, all > target ? "  MISSED" : "");
  for (const passes::Pass& pass : passes::pipeline())
    if (ms.count(pass.name) > 0) std::printf(" %s %.2f", pass.name, median(ms[pass.name]));
  std::printf("\n");
  return all;
}

int run(const std::string& json) {
  const Planner planner;
  const double one = print_times(planner, meshes[0], target_ms[0], 3),
               four = print_times(planner, meshes[1], target_ms[1], 3);
  write_json(json, cat("{\"name\": \"forward_plans\", \"one_ms\": ", one, ", \"four_ms\": ", four, "}"));
  return one <= target_ms[0] && four <= target_ms[1] ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) {
  try {
    if (count == 3 && words[1][0] != '-') {
      karez::bench::print_times(karez::bench::Planner(), words[1], 0, std::stoi(words[2]));
      return 0;
    }
    return karez::bench::run(karez::bench::json_option(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forward_plans: %s\n", error.what());
    return 1;
  }
}
