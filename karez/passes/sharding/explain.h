// Explains a value's layout: the predicted time of the program with each other layout of the value, with the layouts of
// all other values chosen again.
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
  double seconds = 0;  // predicted duration of a launch; `calls` are in calls, the rest in transfers
  double calls = 0;
  std::string report;               // result of the search: "optimal (...)" or "gap <= 3.1 % (...)"
  std::vector<std::string> slower;  // nodes and transfers that take longer than with the chosen layout, at most three,
                                    // the largest first: "matmul ... at net.cc:12 +3.1 us"
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
  std::vector<LayoutAlternative> alternatives;  // first the choice without a limit, then the others by seconds
  std::optional<LimitedLayout> within = {};     // set if memory is limited
  std::string warning = {};                     // printed with predicted numbers
};

// `c` must be a program before any pass. The name is that of an input, an output, a variable or a module (which stands
// for the result of its last op; "fc1.grad" stands for the gradient), or %7 as numbered before `shard`. An unknown name
// is an error that lists similar names. Plans once for each layout, and once more if memory is limited, to find the
// value's layout within the limit; the alternatives are those without the limit.
LayoutExplanation explain_layout(Compilation c, std::string_view name);

std::string print(const LayoutExplanation& explanation);  // as a report

}  // namespace karez::passes
