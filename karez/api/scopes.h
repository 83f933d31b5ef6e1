// Scopes that set the mesh or the module path of the values that are made during a trace.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "karez/api/device_mesh.h"
#include "karez/api/parameter.h"
#include "karez/api/source_line.h"

namespace karez {

class Trace;

// A scope in which values of this thread's trace are placed on the mesh, unless a rule of the function
// (FunctionOptions::placements) places them on another one.
class Placed {
 public:
  explicit Placed(const DeviceMesh& mesh, SourceLine where = SourceLine::current());
  ~Placed();
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Trace* trace_;
  int scope_, mesh_;  // the trace's previous values
};

// A scope in which values of this thread's trace belong to this module path. Placements and recomputation match the
// path, random numbers depend on it, and errors name it. The layers of nn open this scope themselves.
class Within {
 public:
  explicit Within(const std::string& path, SourceLine where = SourceLine::current());
  ~Within();
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Trace* trace_;
  std::string path_;  // the trace's previous values
  int mesh_;
};

// Sets the paths of parameters in the program that this thread traces, until the end of the function's body. Rules and
// placements match these paths; for parameters without a path they match the names. A path that is already set is kept.
void set_trace_paths(const std::vector<std::pair<Parameter, std::string>>& paths);

}  // namespace karez
