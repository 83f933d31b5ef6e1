// The identity elements of sum, max and min, by data type.
#include "karez/passes/lowering/reduction_identity.h"

#include <limits>

#include "karez/base/attr_cast.h"

namespace karez::passes {

Attr identity_of(Reduce reduce, DType dtype) {
  return with_type(dtype, [&]<class T>() -> Attr {
    using Limits = std::numeric_limits<T>;
    const bool max = reduce == Reduce::max;
    if constexpr (Limits::is_integer) {
      if (reduce == Reduce::sum) return std::int64_t{0};
      return static_cast<std::int64_t>(max ? Limits::lowest() : Limits::max());
    } else {
      if (reduce == Reduce::sum) return 0.0;
      constexpr double infinity = std::numeric_limits<double>::infinity();  // every float type has it
      return max ? -infinity : infinity;
    }
  });
}

}  // namespace karez::passes
