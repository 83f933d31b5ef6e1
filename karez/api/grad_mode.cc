// Implements the flag of each thread that says whether gradients are recorded.
#include "karez/api/grad_mode.h"

#include <utility>

namespace karez {
namespace {

thread_local bool grad_enabled = true;

}  // namespace

bool is_grad_enabled() { return grad_enabled; }
bool set_grad_enabled(bool enabled) { return std::exchange(grad_enabled, enabled); }

}  // namespace karez
