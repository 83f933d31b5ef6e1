// FunctionOptions: the options that, together with the mesh, determine how a function is planned.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "karez/api/device_mesh.h"
#include "karez/api/loss_scale.h"
#include "karez/api/names.h"

namespace karez {

// Places a part of the program on a mesh. The part consists of the modules and parameters whose path matches the glob
// `module`, with their sub-modules. `where` is a mesh, or a coordinate on the axis `stage` of the function's mesh.
struct PlacementRule {
  std::string module;
  std::variant<DeviceMesh, int> where;
};

// Options that, together with the mesh, determine how a function is planned.
struct FunctionOptions {
  // Layouts of parameters by glob: {{"fc*.weight", P("model", nullptr)}}, or {"block0", ...} for all parameters of a
  // module; a rule that matches nothing is an error.
  std::vector<LayoutRule> rules = {};
  // Placements by module path: {{"block0", mesh_a}, {"block1", mesh_b}}, or {{"block0", 0}, {"block1", 1}} on a mesh
  // with an axis `stage`. An operation that no rule matches is placed with its largest operand (the first one if sizes
  // are equal), a gradient with its value, and an input or parameter where it is first read. Values that are read on
  // another placement are transferred. A rule that matches nothing and a rule that contradicts another are errors.
  std::vector<PlacementRule> placements = {};
  // Recomputation (activation checkpointing) by module path: {"block*"}. Activations inside a matching module are not
  // stored for the backward pass. They are recomputed from the inputs of the module and have bit for bit the same
  // values, including dropout. This takes less memory (peak_bytes()) and more time. Each outermost matching module is a
  // region: it contains all calls of its sub-modules and the functions between these calls, but not the functions
  // before the first call or after the last. Values that leave the region are stored. A glob that matches no module is
  // an error.
  std::vector<std::string> remat = {};
  // Mixed precision: "bf16" or "f16". Products and convolutions, including those of gradients, take operands of that
  // type and accumulate in f32. Their results, and the results of operations that follow, have that type in memory.
  // Exceptions are e^x, logarithms, powers, sums, norms, softmax and losses, which are f32 like parameters, gradients
  // and the results of the function. bf16 products use the processor's bf16 instructions if it has them; otherwise
  // operands are widened to f32 for each product, which a warning reports once. f16 is only a storage type: each
  // product runs in f32 between casts, which summary() counts. With f16 the loss is scaled: see LossScale. An unknown
  // name is an error, and so is a program with a product of f64 operands.
  std::string amp = {};
  LossScale loss_scale = {};
  // The number of micro-batches: equal parts of the batch, which the step processes one after another. The batch is
  // dimension 0 of the first argument that has dimensions, and of every argument with the same number of rows. Memory
  // for the backward pass is needed for one part only; gradients and losses are summed over the parts, updates happen
  // once, and results are returned for the complete batch. Losses and weights equal those of microbatches = 1 up to the
  // order of sums, and dropout drops the same elements. Only batch norm treats each part separately, as it does when
  // gradients are accumulated over several steps. Sums that depend only on inputs (such as the number of labels that
  // are not ignored) are first taken over the complete batch. A number that does not divide the batch is an error that
  // lists the nearest divisors. A body may only sum over the batch: if it needs statistics of the batch, a maximum over
  // the batch, or rows of different parts together, the error names the op and its line.
  int microbatches = 1;
  // Indices of arguments that have as many rows as the batch but are not part of it (a mask [t, t], positions).
  std::vector<int> unbatched = {};
  bool train = true;       // dropout is active
  bool check_nan = false;  // like WorldOptions::check_nan, but for this function only
  // Allow products to be reassociated to share work; reassociated products may overflow or underflow.
  bool reassociate = false;
  std::string name = "main";
  std::vector<std::string> off = {};  // names of the passes to disable
  bool keep_text = false;             // keep the text of each pass's output
  // The number of signatures to keep; the least recently called signature is dropped first, and compiled again at its
  // next call.
  int keep = 16;
};

}  // namespace karez
