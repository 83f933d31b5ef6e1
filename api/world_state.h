// What a world owns, as `compile` sees it; users hold World and DeviceMesh.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/trace.h"
#include "api/world.h"
#include "data/array_source.h"
#include "kernels/kernel.h"
#include "passes/compilation.h"

namespace karez {

// Where a variable lies: fixed by the first function that used it.
struct StoredVariable {
  Parameter parameter;
  Mesh mesh;
  Layout layout;
};

struct WorldState {
  explicit WorldState(WorldOptions chosen);

  WorldOptions options;
  CostTable costs;
  graph::OpTable ops;
  kernels::KernelTable kernels;
  passes::Evaluate evaluate;
  data::ArrayCopies copies;  // of arguments
  Parameter counter = random_counter();
  int generation = 0;  // raised by reset: older plans are gone
  std::map<std::string, StoredVariable, std::less<>> variables;
  std::mutex compiling;      // one trace or compile at a time
  runtime::Session session;  // last: it is gone before the tables it points to

  // What the compiler is told for a mesh of this many devices.
  passes::CompileOptions compile_options(int devices) const;
  const StoredVariable& stored(std::string_view name) const;
};

}  // namespace karez
