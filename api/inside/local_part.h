// An argument of which each rank has its own rows: how the whole then lies, and the source that gives a plan its slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/compile.h"
#include "data/source.h"

namespace karez {

// The whole of which `part` is what this rank has.
struct LocalPart {
  TensorType whole;
  Layout layout;  // split over its rows along the first axes of the mesh, as many as it takes for this rank to hold as many rows as its part has
  std::int64_t first = 0;
};

// `rows`: of the whole; 0: as many as all ranks of the mesh have together where each has as many as this one. Errors: a part without rows, and one
// that has another number of rows than this rank's devices hold in any such layout. `who` names the argument. A rank without a device of the mesh
// says what its first rank says.
LocalPart local_part(const TensorType& part, std::int64_t rows, const Mesh& mesh, int rank, const std::string& who);

// The error of a call; where ranks differ and it was given parts that do not say how many rows the whole has, with what may be the reason.
Error with_parts_explained(const Error& error, const std::vector<Argument>& arguments);

// Slices of the whole, as long as they lie in the part.
std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& of);

}  // namespace karez
