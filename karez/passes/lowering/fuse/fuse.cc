// Applies the fuse rules, in order, to every actor of every own device.
#include "karez/passes/lowering/fuse/fuse.h"

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

// The rules, in the order in which they run.
constexpr int (*rules[])(SegmentCalls&) = {
    fuse_bias,         // add(matmul(a, w), bias) -> matmul(a, w, bias); also for conv2d
    fuse_relu,         // relu(matmul(a, w)) -> matmul(a, w) with relu; also for conv2d. After fuse_bias, since ReLU is
                       // often applied to the sum with a bias
    fuse_cast_after,   // cast(relu(x)) -> relu(x) that writes 16-bit floats; also for matmul and conv2d. After
                       // fuse_bias and fuse_relu, which remove calls between a matmul or conv2d and its cast
    fuse_cast_before,  // relu(cast(x)) -> relu(x) that reads 16-bit floats
    fuse_rows,         // a softmax -> a call of one row program. Before fuse_chains, because its statements are single
                       // ops, whose values may be used several times
    fuse_chains,       // exp(sub(x, y)) -> a call of one expression. After the rules for library calls, which may take
                       // the first or the last call of a chain
    merge_updates,     // sgd(w0, ...), sgd(w1, ...) -> sgd(w0, ..., w1, ...)
    group_products,    // matmul(x, w0), matmul(x, w1) -> one call of both. Before group_calls, which moves other calls
                       // depending on the sizes of a device's parts, while replicas must group the same products
    group_calls,       // add(x0, y0), add(x1, y1) -> one call of both. Last, because no other rule handles groups
};

}  // namespace

LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team, const FuseOptions& options) {
  auto crosses = crosses_actors(program, segmentation);
  for (LocalSegment& local : program.segments) {
    SegmentCalls segment(graph, program.values, catalog, team, local.calls, crosses);
    for (auto* rule : rules) {
      const bool is_off = (rule == fuse_chains || rule == fuse_rows)
                              ? !options.chains
                              : (rule == group_products || rule == group_calls) && !options.groups;
      if (!is_off) rule(segment);
    }
    segment.remove_dropped();
  }
  return program;
}

}  // namespace karez::passes
