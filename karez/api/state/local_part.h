// Arguments made by local(), of which each rank passes its own rows. Determines their layouts, and makes the sources
// from which a plan reads slices of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "karez/api/argument.h"
#include "karez/api/function_options.h"
#include "karez/api/namespace.h"
#include "karez/data/source.h"

namespace karez {

// The type of an argument's global array, and the position of this rank's part in it.
struct LocalPart {
  TensorType whole;
  // The number of leading axes of the mesh that split the rows. It is chosen such that this rank holds as many rows as
  // its part has.
  int axes = 0;
  std::int64_t first = 0;  // the first row of the part
};

// Finds the position of a part. `rows` is the number of rows of the global array; 0 means that each rank of the mesh
// has as many rows as this one. `subject` names the argument in errors. Throws if the part is a scalar, or if this
// rank's devices do not hold as many rows as the part in any layout that splits rows along leading axes of the mesh. A
// rank without a device of the mesh uses the result of the mesh's first rank. `meshes` lists several meshes if the
// argument's placement is not known yet. Only meshes with devices of this rank then count; throws if they give
// different positions.
LocalPart local_part(const TensorType& part, std::int64_t rows, const std::vector<Mesh>& meshes, int rank,
                     const std::string& subject);

// Returns the meshes on which a function's arguments may be: the function's mesh, and those of its placements.
std::vector<Mesh> meshes_of(const DeviceMesh& mesh, const FunctionOptions& options);

// Returns the error of a call, possibly with an added explanation. If the programs of the ranks differ, and an argument
// is a part without the number of rows of the global array, the message says that this may be the reason.
Error explain_parts(const Error& error, const std::vector<Argument>& arguments);

// Returns a source of the global array, from which only slices that lie in the part can be read.
std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& position);

// Sets the layouts of those inputs of a placed program that are passed as parts. `axes` gives, by argument name, the
// number of axes that split the rows. Each micro-batch takes an equal number of rows from each device (see
// karez/passes/logical/microbatch.h); throws if the rows cannot be divided in this way.
void set_part_layouts(Graph& graph, const std::map<std::string, int>& axes, int microbatches,
                      const std::string& subject);

// Returns the number of row groups, by input name, for the inputs of a planned program whose rows are read in the order
// of micro-batches.
std::map<std::string, std::int64_t> row_groups(const Graph& graph);
// Returns a feed of the same batch, with the rows in the order of micro-batches.
Feed group_rows(Feed feed, std::int64_t groups, int microbatches);

}  // namespace karez
