// Explains a value's layout: predicts the time of the program for each layout that the value could have. For each, the
// planner chooses the layouts of all other values again.
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
  double seconds = 0;               // predicted duration of a launch
  double calls = 0;                 // the part of `seconds` that is spent in calls; the rest is spent in transfers
  std::string report;               // result of the search: "optimal (...)" or "gap <= 3.1 % (...)"
  std::vector<std::string> slower;  // nodes and transfers that take longer than with the chosen layout: at most three,
                                    // largest difference first, such as "matmul ... at net.cc:12 +3.1 us"
};

// The value's layout under a memory limit.
struct LimitedLayout {
  std::int64_t bytes = 0;        // limit per device
  std::optional<Layout> layout;  // nullopt if the layout is the same as without a limit, if no plan fits, or if the
                                 // value is named by a number, which recomputation changes
  std::string reason;  // the chosen variant, or why no plan fits; empty if the fastest plan is within the limit
};

struct LayoutExplanation {
  std::string name;
  TensorType type;
  Mesh mesh;
  bool fixed = false;                           // fixed by the user or by an earlier function
  std::vector<LayoutAlternative> alternatives;  // first the choice without a limit, then the others, fastest first
  std::optional<LimitedLayout> within = {};     // set if memory is limited
  std::string warning = {};                     // a warning that is printed with predicted numbers; may be empty
};

// `c` must be a program on which no pass has run. `name` is the name of an input, output, variable or module, or a
// value number such as %7 in the program right before `shard`. A module stands for the result of its last op, and
// "fc1.grad" for the gradient of that result. An unknown name is an error that lists similar names. The program is
// planned once for each layout, without the memory limit. If memory is limited, it is planned once more, to find the
// layout of the value within the limit.
LayoutExplanation explain_layout(Compilation c, std::string_view name);

std::string print(const LayoutExplanation& explanation);  // as a report

}  // namespace karez::passes
