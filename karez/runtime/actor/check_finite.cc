// Searches for elements that are not finite.
#include "karez/runtime/actor/check_finite.h"

#include <cmath>
#include <optional>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

struct FoundElement {
  Shape index;
  double value;
};

// Returns the first element in row-major order for which `predicate` holds; by default, the first non-finite element.
template <class Predicate = bool (*)(double)>
std::optional<FoundElement> find_first(
    const TensorRef& tensor, Predicate predicate = [](double value) { return !std::isfinite(value); }) {
  std::optional<FoundElement> found;
  with_type(tensor.view->dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      for_each_index(tensor.shape(), [&](const Shape& index) {
        const auto value = static_cast<double>(tensor.as<T>()[offset_of(index, tensor.strides())]);
        if (!found && predicate(value)) found = FoundElement{index, value};
      });
    }
  });
  return found;
}

}  // namespace

bool all_finite(const TensorRef& tensor) { return !find_first(tensor); }

void require_finite(const TensorRef& tensor, const char* verb) {
  if (auto at = find_first(tensor))
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
  if (auto found = find_first(tensor, [](double value) { return std::isnan(value); }))
    fail(ErrorKind::data, "reads variable '", plan.block(at).name, "', which holds NaN at ", found->index, " of ",
         operand.view.type());
}

}  // namespace karez::runtime
