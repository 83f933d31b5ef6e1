// Implements the scopes Placed and Within, which set the mesh or the module path of a trace and restore it at the end.
#include "karez/api/scopes.h"

#include <utility>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {

Placed::Placed(const DeviceMesh& mesh, SourceLine where)
    : trace_(at_line(where,
                     [](Trace& trace) {
                       require(trace.expression == nullptr,
                               "Placed: no program is being traced on this thread; Interactive sets the mesh of ",
                               "computations outside of compiled functions");
                       return &trace;
                     })),
      scope_(trace_->scope),
      mesh_(trace_->builder.mesh) {
  trace_->scope = trace_->mesh_index(mesh.mesh);
  trace_->builder.mesh = trace_->mesh_of_path(trace_->builder.path);
}

Placed::~Placed() {
  trace_->scope = scope_;
  trace_->builder.mesh = mesh_;
}

void set_trace_paths(const std::vector<std::pair<Parameter, std::string>>& paths) {
  for (const auto& [parameter, path] : paths) Trace::current().paths.emplace(parameter.identity(), path);
}

Within::Within(const std::string& path, SourceLine where)
    : trace_(at_line(where,
                     [](Trace& trace) {
                       require(trace.expression == nullptr, "Within: no program is being traced on this thread");
                       return &trace;
                     })),
      path_(std::exchange(trace_->builder.path, path)),
      mesh_(trace_->builder.mesh) {
  trace_->builder.mesh = trace_->mesh_of_path(path);
}

Within::~Within() {
  trace_->builder.path = std::move(path_);
  trace_->builder.mesh = mesh_;
}

}  // namespace karez
