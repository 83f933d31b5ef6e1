// A small valid graph for the tests of this component.
#pragma once

#include <string>

#include "karez/graph/graph.h"
#include "karez/graph/namespace.h"
#include "karez/graph/test_ops.h"

namespace karez::graph {

// A valid graph, which tests may make invalid: a variable that is read and updated, two nodes, and an output.
inline constexpr const char* valid_graph = R"(graph main mesh(data=2) {
  variable "w" : f32[4, 4;] read %0 updated %2
  %0 = variable() {name="w", shape=[4, 4]} : f32[4, 4]
  %1 = matmul(%0, %0) : f32[4@data, 4] in "fc" at "net.cc:3"
  %2 = add(%0, %1) : f32[4, 4] at "net.cc:4" after n1
  output "y" %1
}
)";
struct TestGraph {
  OpTable ops = test_ops();
  Graph graph = parse_graph(valid_graph, ops);
  std::string error() const {
    return error_of([&] { verify(graph); });
  }
};

}  // namespace karez::graph
