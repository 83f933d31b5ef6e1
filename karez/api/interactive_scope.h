// Scopes of computations outside of compiled functions: Interactive sets their mesh, and NoGrad ends their recording.
#pragma once

#include "karez/api/device_mesh.h"

namespace karez {

// A scope that sets the mesh of this thread's computations outside of compiled functions. The mesh applies if all
// operands are host arrays, numbers and parameters that no function has used. An array of a different world is an
// error. A computation that reads a stored parameter runs on the mesh that stores it. Scopes can be nested.
class Interactive {
 public:
  // If `train` is true, dropout is active and batch norm uses the statistics of the batch.
  explicit Interactive(DeviceMesh mesh, bool train = true);
  ~Interactive();
  Interactive(const Interactive&) = delete;
  Interactive& operator=(const Interactive&) = delete;

  static const DeviceMesh* mesh();  // the mesh of the innermost scope; null outside of all scopes
  static bool training();           // `train` of the innermost scope; true outside of all scopes

 private:
  DeviceMesh mesh_;
  bool train_;
  const Interactive* enclosing_;
};

// Returns whether results that are computed on this thread outside of compiled functions remember how they were
// computed, so that `backward` can compute gradients. The default is true.
bool is_grad_enabled();
bool set_grad_enabled(bool enabled);  // returns the previous value

// A scope without recording of gradients.
class NoGrad {
 public:
  NoGrad() : enabled_(set_grad_enabled(false)) {}
  ~NoGrad() { set_grad_enabled(enabled_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool enabled_;
};

}  // namespace karez
