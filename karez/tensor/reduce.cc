// Names of reductions.
#include "karez/tensor/reduce.h"

namespace karez::tensor {

std::string_view name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: return "sum";
    case Reduce::max: return "max";
    case Reduce::min: return "min";
  }
  return "?";
}

std::optional<Reduce> reduce_from(std::string_view name) {
  for (Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min})
    if (name_of(reduce) == name) return reduce;
  return std::nullopt;
}

}  // namespace karez::tensor
