// Why a value lies as it does: what the program would take with each other layout of it, everything else laid anew as
// is best then.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct LayoutAlternative {
  Layout layout;
  double seconds = 0;  // of a launch, as predicted; of which calls take `calls`, and transfers the rest
  double calls = 0;
  std::string report;               // of the search: "optimal (...)" or "gap <= 3.1 % (...)"
  std::vector<std::string> slower;  // what takes longer than in the choice, at most three, the largest first: "matmul
                                    // ... at net.cc:12 +3.1 us"
};

// How a limit on memory has it laid.
struct LimitedLayout {
  std::int64_t bytes = 0;  // allowed of a device
  std::optional<Layout>
      layout;       // none: as without a limit, refused, or asked for by a number, which recomputed nodes shift
  std::string why;  // which way was taken; empty: what is fastest takes no more
};

struct LayoutExplanation {
  std::string name;
  TensorType type;
  Mesh mesh;
  bool fixed = false;                           // by the user, or by an earlier function
  std::vector<LayoutAlternative> alternatives;  // the choice without a limit first, then by seconds
  std::optional<LimitedLayout> within = {};     // where memory is limited
  std::string caution = {};                     // stands beside predicted numbers
};

// Of a program that no pass has seen yet. The name is an input's, an output's, a variable's, a module's (for what its
// last op makes; "fc1.grad" is the gradient's) or %7 as the program stands before `shard`. An unknown name is an error
// with those that are near. Plans once for each layout, and where memory is limited once more, to say how the value
// lies within the limit; the alternatives are those without it.
LayoutExplanation explain_layout(Compilation c, std::string_view name);

std::string print(const LayoutExplanation& explanation);  // a page

}  // namespace karez::passes
