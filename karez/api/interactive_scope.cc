// Implements Interactive: each thread has a pointer to its innermost scope.
#include "karez/api/interactive_scope.h"

#include <utility>

#include "karez/api/namespace.h"

namespace karez {
namespace {

thread_local const Interactive* innermost = nullptr;

}  // namespace

Interactive::Interactive(DeviceMesh mesh, bool train) : mesh_(std::move(mesh)), train_(train), enclosing_(innermost) {
  require(mesh_.world != nullptr, "Interactive requires a mesh made by World::mesh");
  innermost = this;
}
Interactive::~Interactive() { innermost = enclosing_; }
const DeviceMesh* Interactive::mesh() { return innermost == nullptr ? nullptr : &innermost->mesh_; }
bool Interactive::training() { return innermost == nullptr || innermost->train_; }

}  // namespace karez
