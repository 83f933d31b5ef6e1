// Searches for elements that are not finite.
#include "karez/runtime/check_finite.h"

#include <cmath>
#include <optional>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

struct Strange {
  Shape index;
  double value;
};

// The first element in row-major order for which `is` holds; by default, that is not finite.
template <class Is = bool (*)(double)>
std::optional<Strange> first_strange(
    const TensorRef& tensor, Is is = [](double value) { return !std::isfinite(value); }) {
  std::optional<Strange> found;
  with_type(tensor.view->dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      for_each_index(tensor.shape(), [&](const Shape& index) {
        const auto value = static_cast<double>(tensor.as<T>()[offset_of(index, tensor.strides())]);
        if (!found && is(value)) found = Strange{index, value};
      });
    }
  });
  return found;
}

}  // namespace

bool all_finite(const TensorRef& tensor) { return !first_strange(tensor); }

void require_finite(const TensorRef& tensor, const char* verb) {
  if (auto at = first_strange(tensor))
    fail(ErrorKind::data, verb,
         std::isnan(at->value) ? " NaN"
         : at->value > 0       ? " inf"
                               : " -inf",
         " at ", at->index, " of ", tensor.view->type());
}

void require_numbers(const Plan& plan, const Operand& operand, const std::byte* bytes) {
  const BlockId at = operand.block.valid() ? operand.block : plan.reg(operand.reg).block;
  if (!at.valid() || plan.block(at).kind != BlockKind::variable) return;
  const TensorRef tensor{const_cast<std::byte*>(bytes), &operand.view};
  if (auto found = first_strange(tensor, [](double value) { return std::isnan(value); }))
    fail(ErrorKind::data, "reads variable '", plan.block(at).name, "', which holds NaN at ", found->index, " of ",
         operand.view.type());
}

}  // namespace karez::runtime
