// An argument of which each rank has its own rows: how the whole then lies, and the sources that give a plan its
// slices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/data/source.h"

namespace karez {

// The whole of which `part` is what this rank has.
struct LocalPart {
  TensorType whole;
  int axes = 0;  // of the mesh, from the first on, which split its rows: as many as it takes for this rank to hold as
                 // many rows as its part has
  std::int64_t first = 0;
};

// `rows`: of the whole; 0: as many as all ranks of the mesh have together where each has as many as this one. Errors: a
// part without rows, and one that has another number of rows than this rank's devices hold in any such layout. `who`
// names the argument. A rank without a device of the mesh says what its first rank says. Of several meshes, of which it
// is not known yet where the argument will lie, those count that this rank has devices of; where they do not say the
// same, that is an error.
LocalPart local_part(const TensorType& part, std::int64_t rows, const std::vector<Mesh>& meshes, int rank,
                     const std::string& who);

// Where a function's arguments may lie: on its mesh, or on those of its placements.
std::vector<Mesh> meshes_of(const DeviceMesh& on, const FunctionOptions& options);

// The error of a call; where ranks differ and it was given parts that do not say how many rows the whole has, with what
// may be the reason.
Error explain_parts(const Error& error, const std::vector<Argument>& arguments);

// Slices of the whole, as long as they lie in the part.
std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& of);

// Lays the inputs of a placed program that come in parts: by argument's name the axes that split its rows. With
// micro-batches each of them has some rows of each device's (see karez/passes/logical/microbatch.h), and rows that this
// does not divide are an error.
void set_part_layouts(Graph& graph, const std::map<std::string, int>& axes, int microbatches, const std::string& who);

// The inputs of a planned program whose rows are read in that order, and into how many groups they fall.
std::map<std::string, std::int64_t> row_groups(const Graph& graph);
Feed group_rows(Feed feed, std::int64_t groups, int microbatches);

}  // namespace karez
