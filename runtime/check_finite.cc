// Looking for what is not finite.
#include "runtime/check_finite.h"

#include <cmath>
#include <optional>

#include "base/error.h"

namespace karez::runtime {
namespace {

struct Strange {
  Shape index;
  double value;
};

// The first element in row-major order that is not finite.
std::optional<Strange> first_strange(const TensorRef& tensor) {
  std::optional<Strange> found;
  with_type(tensor.view->dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      for_each_index(tensor.shape(), [&](const Shape& index) {
        const T value = tensor.as<T>()[offset_of(index, tensor.strides())];
        if (!found && !std::isfinite(value)) found = Strange{index, static_cast<double>(value)};
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
         " at ", print_shape(at->index), " of ", tensor.view->type());
}

}  // namespace karez::runtime
