// The peer of bench_engine: measures chains of oneTBB flow-graph nodes with empty bodies on one thread. Prints
// "actors N ns X", where X is the time per act.
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

constexpr int acts = 1'000'000, rounds = 5;

double ns_per_act(int actors) {
  using Node = tbb::flow::function_node<int, int>;
  tbb::flow::graph graph;
  std::vector<std::unique_ptr<Node>> nodes;
  long outputs = 0;
  for (int i = 0; i < actors; ++i) {
    nodes.push_back(std::make_unique<Node>(graph, tbb::flow::serial, [&outputs, i, actors](int piece) {
      if (i + 1 == actors) ++outputs;
      return piece;
    }));
    if (i > 0) tbb::flow::make_edge(*nodes[static_cast<std::size_t>(i) - 1], *nodes.back());
  }
  const int pieces = acts / actors;
  std::vector<double> ns;
  for (int round = 0; round <= rounds; ++round) {  // the first round warms up
    const auto begin = std::chrono::steady_clock::now();
    for (int piece = 0; piece < pieces; ++piece) nodes[0]->try_put(piece);
    graph.wait_for_all();
    if (round > 0)
      ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / acts);
  }
  if (outputs != static_cast<long>(pieces) * (rounds + 1)) return -1;
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2];
}

}  // namespace

int main() {
  tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  for (int actors : {10, 100, 1000, 10'000}) {
    const double ns = ns_per_act(actors);
    if (ns < 0) return 1;
    std::printf("actors %d ns %.1f\n", actors, ns);
  }
}
