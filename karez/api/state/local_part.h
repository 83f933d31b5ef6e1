// Arguments of which each rank passes its own rows: their layout, and the sources from which a plan reads their slices.
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

// The type of the global array of an argument, and the position of this rank's part in it.
struct LocalPart {
  TensorType whole;
  // The number of leading axes of the mesh that split the rows: the number for which this rank holds exactly the rows
  // of its part.
  int axes = 0;
  std::int64_t first = 0;  // the first row of the part
};

// Finds the position of a part. `rows` is the number of rows of the global array; 0 means that each rank of the mesh
// has as many rows as this one. Errors: a part without rows, and a number of rows that this rank's devices do not hold
// in any such layout. `subject` names the argument. A rank without a device of the mesh uses the result of the mesh's
// first rank. If there are several meshes, because the argument's placement is not known yet, those with devices of
// this rank are considered; different results for them are an error.
LocalPart local_part(const TensorType& part, std::int64_t rows, const std::vector<Mesh>& meshes, int rank,
                     const std::string& subject);

// Returns the meshes on which a function's arguments may be: the function's mesh, and those of its placements.
std::vector<Mesh> meshes_of(const DeviceMesh& mesh, const FunctionOptions& options);

// Returns the error of a call. If ranks differ and some argument is a part without the number of rows of the global
// array, this possible reason is appended to the text.
Error explain_parts(const Error& error, const std::vector<Argument>& arguments);

// Returns a source of those slices of the global array that lie in the part.
std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& position);

// Sets the layouts of inputs of a placed program that are passed as parts: `axes` gives, by argument name, the number
// of axes that split the rows. Each micro-batch has some rows of each device (see karez/passes/logical/microbatch.h); a
// number of rows that cannot be divided in this way is an error.
void set_part_layouts(Graph& graph, const std::map<std::string, int>& axes, int microbatches,
                      const std::string& subject);

// Returns the number of row groups of each input of a planned program whose rows are read in the order of
// micro-batches.
std::map<std::string, std::int64_t> row_groups(const Graph& graph);
Feed group_rows(Feed feed, std::int64_t groups, int microbatches);

}  // namespace karez
