// Why a value lies as it does: what the program would take with each other layout of it, everything else laid anew as is best then.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/compilation.h"

namespace karez::passes {

struct LayoutAlternative {
  Layout layout;
  double seconds = 0;  // of a launch, as predicted; of which calls take `calls`, and transfers the rest
  double calls = 0;
  std::string report;               // of the search: "optimal (...)" or "gap <= 3.1 % (...)"
  std::vector<std::string> dearer;  // what takes longer than in the choice, at most three, the largest first: "matmul ... at net.cc:12 +3.1 us"
};

struct LayoutExplanation {
  std::string name;
  TensorType type;
  Mesh mesh;
  bool fixed = false;                           // by the user, or by an earlier function
  std::vector<LayoutAlternative> alternatives;  // the choice first, then by seconds
};

// Of a program that no pass has seen yet. The name is an input's, an output's, a variable's, a module's (for what its last op makes; "fc1.grad" is
// the gradient's) or %7 as the program stands before `shard`. An unknown name is an error with those that are near. Plans once for each layout.
LayoutExplanation explain_layout(Compilation c, std::string_view name);

std::string print(const LayoutExplanation& explanation);  // a page

}  // namespace karez::passes
