// Implements the scopes: each thread has a pointer to its innermost Interactive scope, and a flag for recording.
#include "karez/api/interactive_scope.h"

#include <utility>

#include "karez/api/namespace.h"

namespace karez {
namespace {

thread_local const Interactive* innermost = nullptr;
thread_local bool grad_enabled = true;

}  // namespace

Interactive::Interactive(DeviceMesh mesh, bool train) : mesh_(std::move(mesh)), train_(train), enclosing_(innermost) {
  require(mesh_.world != nullptr, "Interactive requires a mesh made by World::mesh");
  innermost = this;
}
Interactive::~Interactive() { innermost = enclosing_; }
const DeviceMesh* Interactive::mesh() { return innermost == nullptr ? nullptr : &innermost->mesh_; }
bool Interactive::training() { return innermost == nullptr || innermost->train_; }

bool is_grad_enabled() { return grad_enabled; }
bool set_grad_enabled(bool enabled) { return std::exchange(grad_enabled, enabled); }

}  // namespace karez
