// Explains a value's layout: the predicted time of the program with each other layout of it, all other layouts being
// chosen again.
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
  double seconds = 0;  // predicted for a launch: `calls` in calls, the rest in transfers
  double calls = 0;
  std::string report;               // of the search: "optimal (...)" or "gap <= 3.1 % (...)"
  std::vector<std::string> slower;  // nodes and transfers that take longer than with the chosen layout, at most three,
                                    // the largest first: "matmul ... at net.cc:12 +3.1 us"
};

// The value's layout under a memory limit.
struct LimitedLayout {
  std::int64_t bytes = 0;  // allowed per device
  std::optional<Layout>
      layout;       // none: the same as without a limit, refused, or named by a number, which recomputation shifts
  std::string why;  // the variant taken; empty: the fastest plan needs no more
};

struct LayoutExplanation {
  std::string name;
  TensorType type;
  Mesh mesh;
  bool fixed = false;                           // by the user, or by an earlier function
  std::vector<LayoutAlternative> alternatives;  // the choice without a limit first, then by seconds
  std::optional<LimitedLayout> within = {};     // if memory is limited
  std::string caution = {};                     // printed with predicted numbers
};

// Takes a program before any pass. The name is that of an input, an output, a variable, a module (for the result of its
// last op; "fc1.grad" is the gradient's) or %7 as numbered before `shard`. An unknown name is an error that lists
// similar names. Plans once for each layout, and once more if memory is limited, to find the value's layout within the
// limit; the alternatives are those without it.
LayoutExplanation explain_layout(Compilation c, std::string_view name);

std::string print(const LayoutExplanation& explanation);  // as a page

}  // namespace karez::passes
