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
#include "karez/api/state/call_outputs.h"
#include "karez/api/state/program_compilation.h"
#include "karez/api/state/session_plan.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/index_checks.h"
#include "karez/api/trace/trace.h"
#include "karez/runtime/stages/launch_stalls.h"

namespace karez {

// A parameter of a program: its name in the program, and the mesh and layout that the plan requires.
struct PlannedVariable {
  Parameter parameter;
  std::string name;
  Mesh mesh;
  Layout layout;
  bool is_updated = false;
};

// The entry of one argument in a signature: its type, and for an array on devices its mesh and layout. Reading from a
// source may be slow, so the next batch is prefetched into a second slot. Arrays are not prefetched.
struct Function::ArgumentSignature {
  TensorType type;
  std::optional<ArraySpec> spec = {};
  bool prefetched = false;             // read from a source
  std::optional<int> split_axes = {};  // for local(): the number of mesh axes that split the global array
  bool operator==(const ArgumentSignature&) const = default;
};

// The origin of an input of a plan: an argument, or a number that the host may change. Unused arguments are not inputs.
struct PlanInput {
  std::optional<std::size_t> argument = {}, scalar = {};
  std::int64_t row_groups = 0;  // for micro-batches, see local_part.h; 0 means that rows stay in order
};

struct Function::CompiledProgram {
  std::vector<ArgumentSignature> signature;
  std::vector<std::uint64_t> bodies;            // ids of the function bodies whose traces are this program
  std::vector<Parameter::Identity> parameters;  // the parameters of the trace
  Graph graph;                                  // the graph of the trace
  Graph planner_input;                          // the graph with the layouts that were fixed before planning
  std::vector<GradientOutput> gradients;        // the outputs that are gradients of parameters
  std::int64_t batch = 0;                       // number of rows of the batch; 0 if there is no batch
  Plan plan;
  double cost = 0;  // predicted seconds
  std::string report;
  std::string memory_note;  // for summary(): the effect of a memory limit
  std::vector<PassTime> passes;
  std::vector<HostScalar> scalars;
  std::vector<PlannedVariable> variables;          // keeps the parameters alive, because the plan uses their memory
  std::map<std::string, std::int64_t> row_groups;  // number of row groups for micro-batches, by input
  std::vector<IndexCheck> index_checks;            // of index arguments
  std::shared_ptr<Outputs> results;
  bool ready = false;                         // set by the first call
  std::vector<PlanInput> plan_inputs;         // set with `ready`, in the order of the inputs in the session
  std::unique_ptr<SessionPlan> session_plan;  // set together with `ready`; null if this rank has no actors
  int generation = 0;
  int data_cores = 0;                    // that its kernels leave to data sets
  mutable int calls = 0;                 // number of calls, equal on all ranks
  mutable runtime::LaunchStalls stalls;  // of the launches that read arrays of the host
};

struct Function::State {
  DeviceMesh mesh;
  int arguments = 0;
  Body body;
  FunctionOptions options;
  SourceLine where;
  std::shared_ptr<Plans> plans = {};
  std::uint64_t number = 0;  // the number of the body among the bodies that share the plans
};

// The plans of a function, shared with the functions that with_body returns.
struct Function::Plans {
  TraceOwner trace_owner = {};
  std::atomic<std::uint64_t> bodies = 0;
  // Guarded by the world's lock.
  std::vector<std::shared_ptr<CompiledProgram>> list = {};  // by signature and program; the most recently used last
  bool recompile_reported = false;                          // the warning about a second signature was printed
};

}  // namespace karez
