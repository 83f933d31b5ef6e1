// Applies the fuse rules, in order, to every actor of every own device.
#include "karez/passes/lowering/fuse/fuse.h"

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

constexpr FuseRule rules[] = {
    // add(matmul(a, w), bias) -> matmul(a, w, bias); also for conv2d.
    {fuse_bias, true, true},
    // relu(matmul(a, w)) -> matmul(a, w) with relu; also for conv2d. After fuse_bias, since ReLU is often applied to
    // the
    // sum with a bias. The merged call computes ReLU in a separate pass over its result.
    {fuse_relu, true, false},
    // cast(relu(x)) -> relu(x) that writes 16-bit floats; also for matmul and conv2d. After fuse_bias and fuse_relu,
    // which remove calls between a matmul or conv2d and its cast.
    {fuse_cast_after, true, true},
    // relu(cast(x)) -> relu(x) that reads 16-bit floats.
    {fuse_cast_before, true, true},
    // A softmax -> a call of one row program. Before fuse_chains, because its statements are single ops, whose values
    // may be used several times.
    {fuse_rows, true, true, &FuseOptions::chains},
    // exp(sub(x, y)) -> a call of one expression. After the rules for library calls, which may take the first or the
    // last call of a chain.
    {fuse_chains, true, true, &FuseOptions::chains},
    // sgd(w0, ...), sgd(w1, ...) -> sgd(w0, ..., w1, ...).
    {merge_updates, false, false},
    // matmul(x, w0), matmul(x, w1) -> one call of both. Before group_calls, which moves other calls depending on the
    // sizes of a device's parts, while replicas must group the same products.
    {group_products, false, false, &FuseOptions::groups},
    // add(x0, y0), add(x1, y1) -> one call of both. Last, because no other rule handles groups.
    {group_calls, false, false, &FuseOptions::groups},
};

}  // namespace

std::span<const FuseRule> fuse_rules() { return rules; }

LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team, const FuseOptions& options) {
  auto crosses = crosses_actors(program, segmentation);
  for (LocalSegment& local : program.segments) {
    SegmentCalls segment(graph, program.values, catalog, team, local.calls, crosses);
    for (const FuseRule& rule : rules)
      if (rule.option == nullptr || options.*rule.option) rule.apply(segment);
    segment.remove_dropped();
  }
  return program;
}

}  // namespace karez::passes
