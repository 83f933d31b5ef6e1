// Graphs that expressions share (see shared_call.h and shared_gradients.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "karez/graph/graph.h"

namespace karez {

struct SharedGraph {
  graph::Graph graph;  // without source lines, which differ between calls
  graph::ValueId result;
  std::vector<std::size_t> parameters;  // for each variable of the graph, its index among the parameters of the call
  std::vector<tensor::DType> numbers;   // that the function has chosen for operands that are numbers
  std::string key;                      // part of the key of a program, see key_of
  bool may_fail = false;                // whether a node may fail in a launch, see may_fail
};

// The expression that backward writes. Values and parameters have the numbers that a NumberedRecord gives them.
struct GradientGraph {
  std::shared_ptr<const SharedGraph> graph;
  std::vector<std::size_t> operands;                          // the numbers of values
  std::vector<std::pair<std::size_t, graph::ValueId>> moved;  // uncomputed values of the record, which it computes too
  std::vector<graph::ValueId> gradients;
  // Values of the record that a kept record gets, see Expression::Copy.
  struct Copy {
    graph::ValueId id;
    std::size_t part;  // the index of the recorded expression
    graph::ValueId record_id;
  };
  std::vector<Copy> copies = {};
};

}  // namespace karez
