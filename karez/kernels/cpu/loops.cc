// Builds loops over strided operands: drops, sorts and merges dimensions.
#include "karez/kernels/cpu/loops.h"

#include <vector>

namespace karez::kernels {

Loops loops_over(const Shape& shape, std::span<const Strides> operands, Order order) {
  require(shape.size() <= max_loops, "a kernel supports at most ", max_loops, " dimensions, got ", shape);
  require(operands.size() <= max_operands, "a kernel loops over at most ", max_operands, " operands, got ",
          operands.size());
  for (const Strides& strides : operands)
    require(strides.size() == shape.size(), "a view of shape ", shape, " has ", strides.size(), " strides");
  Loops loops;
  loops.operands = static_cast<int>(operands.size());
  loops.rank = 1;
  loops.size[0] = count_of(shape) == 0 ? 0 : 1;
  if (loops.size[0] == 0) return loops;

  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) dims.push_back(d);
  if (dims.empty()) return loops;
  if (order == Order::by_memory)
    std::stable_sort(dims.begin(), dims.end(),
                     [&](std::size_t a, std::size_t b) { return operands[0][a] > operands[0][b]; });

  loops.rank = 0;
  for (std::size_t d : dims) {
    const auto last = static_cast<std::size_t>(std::max(loops.rank - 1, 0));
    bool merges = loops.rank > 0;
    for (std::size_t k = 0; k < operands.size() && merges; ++k)
      merges = loops.stride[k][last] == operands[k][d] * shape[d];
    const auto loop = merges ? last : static_cast<std::size_t>(loops.rank++);
    loops.size[loop] = merges ? loops.size[loop] * shape[d] : shape[d];
    for (std::size_t k = 0; k < operands.size(); ++k) loops.stride[k][loop] = operands[k][d];
  }
  return loops;
}

}  // namespace karez::kernels
