// For tests of collectives: a plan of all_reduces on a grid of devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/plan/plan_builder.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A grid of devices, rows x columns. Each has its own vector, which is summed `rounds` times along the row (by the
// communicator of that row) and then along the column; the result is fetched from every device.
struct Grid {
  int rows, columns, rounds;
  std::int64_t count;
  PlanBuilder s;
  std::string algorithm;

  Grid(int rows, int columns, int rounds, std::int64_t count, const std::string& algorithm, int workers);

  // The kernel y = x, which the plan calls; it fails on memory that was never written, because that is poisoned.
  static KernelRow kernel();

  // The result on every device: the sum over all devices, times the factor of each further round.
  float expected(std::int64_t element, const std::vector<float>& x) const;

 private:
  void add_device(int device, int worker);
};

}  // namespace karez::runtime
