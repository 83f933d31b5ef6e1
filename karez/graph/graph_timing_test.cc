// Measures the time to verify, print and parse a graph of ten thousand nodes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "karez/graph/graph.h"
#include "karez/graph/test_ops.h"

namespace karez::graph {
namespace {

const Attrs square{{"shape", Ints{4, 4}}};

TEST(Graph, TenThousandNodesTakeMilliseconds) {
  OpTable ops = test_ops();
  Graph g;
  Builder b(g, ops);
  b.path = "layer";
  b.where = "net.cc:1";
  ValueId x = b.one("input", {}, square), y = x;
  for (int i = 0; i < 10000; ++i) y = i % 2 ? b.one("add", {x, y}) : b.one("relu", {y});
  auto time = [](auto function) {
    auto begin = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  std::string text;
  double verify_ms = time([&] { verify(g); }), print_ms = time([&] { text = print(g); }),
         parse_ms = time([&] { parse_graph(text, ops); }), uses_ms = time([&] { uses_of(g); });
  RecordProperty("milliseconds",
                 cat("verify ", verify_ms, ", print ", print_ms, ", parse ", parse_ms, ", uses ", uses_ms));
  std::printf("10,001 nodes: verify %.1f ms, print %.1f ms, parse %.1f ms, uses %.1f ms\n", verify_ms, print_ms,
              parse_ms, uses_ms);
  // The limit is far above the measured time and far below that of a quadratic algorithm (seconds), so that the test
  // passes with sanitizers and on busy machines.
  EXPECT_LT(verify_ms + print_ms + parse_ms + uses_ms, 2000);
}

}  // namespace
}  // namespace karez::graph
