// The state of a compiled function: its body and options, and for each signature a program with its plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/session_plan.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/index_checks.h"
#include "karez/api/trace/trace.h"

namespace karez {

// The outputs of a function, and the position of each among the results of a launch.
struct Outputs {
  std::vector<ArraySpec> specs;
  // Nullopt if no device of this rank holds a part of the output. Set at the first launch.
  std::vector<std::optional<std::size_t>> result_indices;
};

struct Future::State {
  std::shared_ptr<WorldState> world;  // keeps the session alive, which the launch needs
  Launch launch;
  std::shared_ptr<const Outputs> results;
};

// A parameter of a program: its name in the program, and the mesh and layout that the plan requires.
struct PlannedVariable {
  Parameter parameter;
  std::string name;
  Mesh mesh;
  Layout layout;
};

// One argument's entry in a signature: its type, and for an array on devices its mesh and layout. Reading from a source
// may be slow, so its next batch is prefetched into a second slot; an array is not prefetched.
struct Function::ArgumentSignature {
  TensorType type;
  std::optional<ArraySpec> spec = {};
  bool ahead = false;                  // read from a source
  std::optional<int> split_axes = {};  // for local(): the number of mesh axes that split the global array
  bool operator==(const ArgumentSignature&) const = default;
};

struct Function::CompiledProgram {
  std::vector<ArgumentSignature> signature;
  std::vector<std::uint64_t> bodies;            // ids of the function bodies whose traces are this program
  std::vector<Parameter::Identity> parameters;  // of the trace
  Graph graph;                                  // as traced
  Graph planner_input;                          // with the layouts that were fixed before planning
  std::int64_t batch = 0;                       // size in rows; 0 without micro-batches
  Plan plan;
  double cost = 0;  // seconds, predicted
  std::string report;
  std::string memory_note;  // for summary(): the effect of a memory limit
  std::vector<PassTime> passes;
  std::vector<HostScalar> scalars;
  std::vector<PlannedVariable> variables;      // keeps their parameters alive: the plan uses their memory
  std::vector<std::string> inputs;             // of the plan; unused arguments are not inputs
  std::map<std::string, std::int64_t> groups;  // by input: the number of row groups for micro-batches
  std::vector<IndexCheck> indices;             // of index arguments
  std::shared_ptr<Outputs> results;
  bool ready = false;                         // set by its first call
  std::unique_ptr<SessionPlan> session_plan;  // set with `ready`; null if this rank has no actors
  int generation = 0;
  mutable int calls = 0;  // equal on all ranks
};

struct Function::State {
  DeviceMesh mesh;
  int arguments = 0;
  Body body;
  FunctionOptions options;
  SourceLine where;
  std::shared_ptr<Plans> plans = {};
  std::uint64_t number = 0;  // of the body, among the bodies that share the plans
};

// The plans of a function, shared with functions that have other bodies.
struct Function::Plans {
  TraceOwner trace_owner = {};
  std::atomic<std::uint64_t> bodies = 0;
  // Guarded by the world's lock.
  std::vector<std::shared_ptr<CompiledProgram>> list = {};  // by signature and program; the most recently used last
  bool recompile_reported = false;                          // the reason for compiling again
};

}  // namespace karez
