// Arguments of which each rank has its own rows: the layout of the whole, and the sources that give a plan its slices.
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

// The whole of an argument, and the position of this rank's part in it.
struct LocalPart {
  TensorType whole;
  // The number of leading axes of the mesh that split its rows: as many as needed for this rank to hold exactly the
  // rows of its part.
  int axes = 0;
  std::int64_t first = 0;
};

// `rows`: of the whole; 0: the total if each rank of the mesh has as many rows as this one. Errors: a part without
// rows, and a number of rows that this rank's devices do not hold in any such layout. `subject` names the argument. A
// rank without a device of the mesh uses the result of the mesh's first rank. If there are several meshes, because the
// argument's placement is not known yet, those with devices of this rank are considered; if their results differ, that
// is an error.
LocalPart local_part(const TensorType& part, std::int64_t rows, const std::vector<Mesh>& meshes, int rank,
                     const std::string& subject);

// The meshes on which a function's arguments may be: its own, and those of its placements.
std::vector<Mesh> meshes_of(const DeviceMesh& on, const FunctionOptions& options);

// The error of a call. If ranks differ and some argument is a part without the number of rows of the whole, the text is
// extended by this possible reason.
Error explain_parts(const Error& error, const std::vector<Argument>& arguments);

// A source of those slices of the whole that are in the part.
std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& of);

// Sets the layouts of inputs of a placed program that are given in parts: `axes` has, by argument name, the number of
// axes that split its rows. With micro-batches each of these has some rows of each device (see
// karez/passes/logical/microbatch.h); rows that this does not divide are an error.
void set_part_layouts(Graph& graph, const std::map<std::string, int>& axes, int microbatches,
                      const std::string& subject);

// The inputs of a planned program with rows that are read in that order, each with its number of groups.
std::map<std::string, std::int64_t> row_groups(const Graph& graph);
Feed group_rows(Feed feed, std::int64_t groups, int microbatches);

}  // namespace karez
