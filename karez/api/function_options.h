// FunctionOptions: options that, with the mesh, determine how a function is planned.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "karez/api/device_mesh.h"
#include "karez/api/loss_scale.h"
#include "karez/api/names.h"

namespace karez {

// The placement of a part of the program: modules (and parameters) whose path matches the glob, and their sub-modules,
// run on a different mesh from the function's, or at one coordinate of the axis `stage` of the function's mesh.
struct PlacementRule {
  std::string module;
  std::variant<DeviceMesh, int> where;
};

// Options that, with the mesh, determine how a function is planned.
struct FunctionOptions {
  // Layouts of parameters by glob: {{"fc*.weight", P("model", nullptr)}}, or {"block0", ...} for all parameters of a
  // module; a rule that matches nothing is an error.
  std::vector<LayoutRule> rules = {};
  // Placements by module path: {{"block0", mesh_a}, {"block1", mesh_b}}, or {{"block0", 0}, {"block1", 1}} on a mesh
  // with an axis `stage`. An operation that no rule matches is placed with its largest operand (the first one if sizes
  // are equal), a gradient with its value, and an input or parameter where it is first read. Values that are read on
  // another placement are transferred. A rule that matches nothing and a rule that contradicts another are errors.
  std::vector<PlacementRule> placements = {};
  // Recomputation (activation checkpointing) by module path: {"block*"}. Values inside a matching module that gradients
  // need are not stored: they are computed again from the inputs of the module, bit for bit, including dropout. This
  // takes less memory (peak_bytes()) and more time. Each outermost matching module is a region: all calls of its
  // sub-modules and the functions between these calls, but not the functions before the first call or after the last.
  // Values that leave the region are stored. A glob that matches no module is an error.
  std::vector<std::string> remat = {};
  // Mixed precision: "bf16" or "f16". Products and convolutions, including those of gradients, take operands of that
  // type and accumulate in f32. Their results, and operations that follow, keep that type in memory, except e^x,
  // logarithms, powers, sums, norms, softmax and losses, which are f32 like parameters, gradients and results. bf16
  // products use the processor's bf16 instructions if it has them; otherwise operands are widened to f32 for each
  // product, which a warning reports once. f16 is only a storage type: each product runs in f32 between casts, which
  // summary() counts. f16 scales the loss: see LossScale. An unknown name, and a program that multiplies f64, are
  // errors.
  std::string amp = {};
  LossScale loss_scale = {};
  // The number of micro-batches: equal parts of the batch, which the step processes one after another. The batch is
  // dimension 0 of the first argument that has dimensions, and of every argument with the same number of rows. Memory
  // for the backward pass is needed for one part only; gradients and losses are summed over the parts, updates happen
  // once, and results are returned for the complete batch. Losses and weights equal those of microbatches = 1 up to the
  // order of sums, and dropout drops the same elements. Only batch norm treats each part separately, as it does when
  // gradients are accumulated over several steps. Sums that depend only on inputs (such as the number of labels that
  // count) are first taken over the complete batch. Errors: a number that does not divide the batch (the message lists
  // the nearest divisors), and a body that needs more of the batch than a sum (statistics of the batch, a maximum over
  // it, rows of different parts together); the message names the op and its line.
  int microbatches = 1;
  // Indices of arguments that have as many rows as the batch but are not part of it (a mask [t, t], positions).
  std::vector<int> unbatched = {};
  bool train = true;       // dropout is active
  bool check_nan = false;  // as WorldOptions::check_nan, for this function only
  // Allow products to be reassociated to share work; reassociated products may overflow or underflow.
  bool reassociate = false;
  std::string name = "main";
  std::vector<std::string> off = {};  // names of passes to disable
  bool keep_text = false;             // keep the text of each pass's output
  // The number of signatures to keep; the least recently called signature is dropped first, and compiled again at its
  // next call.
  int keep = 16;
};

}  // namespace karez
