// The pipeline: runs every pass in the one order, verifies and times each.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct Pass {
  const char* name;
  void (*run)(Compilation&);
  bool may_be_off;  // legal to switch off by name
};
std::span<const Pass> pipeline();
const Pass& pass_named(std::string_view name);
void run_passes(Compilation& c, std::initializer_list<std::string_view> names);  // these alone, in this order

// From a traced graph to c.plan. Errors name the pass, and the node with the user's line where there is one.
void compile(Compilation& c);

}  // namespace karez::passes
