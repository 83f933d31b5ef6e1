// For tests of collectives: a plan with all_reduces on a grid of devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A plan on a grid of rows x columns devices. Each device has its own vector. In each of `rounds` rounds, the vectors
// are summed along the rows and then along the columns; every row and column has its own communicator. The result is
// fetched from every device.
struct Grid {
  int rows, columns, rounds;
  std::int64_t count;
  PlanBuilder s;
  std::string algorithm;

  Grid(int rows, int columns, int rounds, std::int64_t count, const std::string& algorithm, int workers);

  // The kernel y = x, which the plan calls. It throws if x was never written, because such memory is poisoned.
  static KernelRow kernel();

  // Returns the result on every device: the sum over all devices, multiplied by their number in each further round.
  float expected(std::int64_t element, const std::vector<float>& x) const;

 private:
  void add_device(int device, int worker);
};

}  // namespace karez::runtime
