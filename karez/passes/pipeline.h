// The pipeline, which runs all passes in a fixed order, verifies the graph after each pass and the plan at the end, and
// measures the time of each pass.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

enum class PassResult { graph, segments, orders, local_program, plan };

struct Pass {
  const char* name;
  void (*run)(Compilation&);
  PassResult result;
  bool can_be_off = false;  // whether CompileOptions::off may contain the pass
  // If it returns false, the pass would not change the graph, so it does not run.
  bool (*is_needed)(const Compilation&) = nullptr;
};
std::span<const Pass> pipeline();
const Pass& pass_named(std::string_view name);
void run_passes(Compilation& c,
                std::initializer_list<std::string_view> names);  // runs only these passes, in this order

// Runs all passes on a traced graph, without regard to the memory limit (see compile.h). Errors name the pass, and the
// node with the user's line if one is known.
void run_pipeline(Compilation& c);
void run_pipeline_to(Compilation& c, std::string_view last);  // ends after this pass

}  // namespace karez::passes
