// What a compiled function keeps: its body and options, and for each signature a program with its plan.
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

// What a function gives, and which of a launch's results each is.
struct Outputs {
  std::vector<ArraySpec> specs;
  std::vector<std::optional<std::size_t>>
      result_indices;  // none where this rank has no device of it; since the first launch
};

struct Future::State {
  std::shared_ptr<WorldState> world;  // a launch needs its session
  Launch launch;
  std::shared_ptr<const Outputs> results;
};

// A parameter in a program: its name there, and where the plan wants it.
struct PlannedVariable {
  Parameter parameter;
  std::string name;
  Mesh mesh;
  Layout layout;
};

// What a signature says of one argument: its type, and of one that lies on devices already where and how. A source may
// take its time, so that its next batch is worth a second slot; an array is there at once.
struct Function::ArgumentSignature {
  TensorType type;
  std::optional<ArraySpec> spec = {};
  bool ahead = false;                  // fed by a source
  std::optional<int> split_axes = {};  // of a whole of which each rank gives its part, split along so many axes
  bool operator==(const ArgumentSignature&) const = default;
};

struct Function::CompiledProgram {
  std::vector<ArgumentSignature> signature;
  std::vector<std::uint64_t> bodies;            // whose traces are this program
  std::vector<Parameter::Identity> parameters;  // of the trace
  Graph graph;                                  // as traced
  Graph planner_input;                          // and with the layouts that were fixed when it was planned
  std::int64_t batch = 0;                       // where there are micro-batches
  Plan plan;
  double cost = 0;  // seconds, predicted
  std::string report;
  std::string memory_note;  // of summary: what a limit on memory did
  std::vector<PassTime> passes;
  std::vector<HostScalar> scalars;
  std::vector<PlannedVariable> variables;      // their parameters are kept alive: the plan works on their memory
  std::vector<std::string> inputs;             // of the plan: an argument that nothing needs is none
  std::map<std::string, std::int64_t> groups;  // that the rows of some fall into
  std::vector<IndexCheck> indices;             // that arguments hold
  std::shared_ptr<Outputs> results;
  bool ready = false;                         // since its first call
  std::unique_ptr<SessionPlan> session_plan;  // then; none where this rank has no part in it
  int generation = 0;
  mutable int calls = 0;  // the same on all ranks
};

struct Function::State {
  DeviceMesh mesh;
  int arguments = 0;
  Body body;
  FunctionOptions options;
  SourceLine where;
  std::shared_ptr<Plans> plans = {};
  std::uint64_t number = 0;  // of the body, among those that share them
};

// Of a function, and of those that have other bodies and share its plans.
struct Function::Plans {
  TraceOwner trace_owner = {};
  std::atomic<std::uint64_t> bodies = 0;
  // Under the world's lock.
  std::vector<std::shared_ptr<CompiledProgram>> list = {};  // by signature and program; the latest used last
  bool recompile_reported = false;                          // why it compiles again
};

}  // namespace karez
