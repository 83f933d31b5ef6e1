// Applies the rules of fuse in order to every actor of every own device.
#include "karez/passes/lowering/fuse/fuse.h"

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

constexpr FuseRule rules[] = {
    {"bias", "add(matmul(a, w), bias) -> matmul(a, w, bias), convolutions too", fuse_bias},
    {"relu", "relu(matmul(a, w)) -> matmul(a, w) with relu, convolutions too",
     fuse_relu},  // after bias: relu(a w + bias)
    {"cast_after", "cast(relu(x)) -> relu(x) that writes halves, products too",
     fuse_cast_after},  // after bias and relu, which remove calls between a product and its cast
    {"cast_before", "relu(cast(x)) -> relu(x) that reads halves", fuse_cast_before},
    {"merge_updates", "sgd(w0, ...), sgd(w1, ...) -> sgd(w0, ..., w1, ...)", merge_updates},
};

}  // namespace

std::span<const FuseRule> fuse_rules() { return rules; }

LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team) {
  auto crosses = crosses_actors(program, segmentation);
  for (LocalSegment& local : program.segments) {
    SegmentCalls segment(graph, program.values, catalog, team, local.calls, crosses);
    for (const FuseRule& rule : rules) rule.run(segment);
    segment.remove_dropped();
  }
  return program;
}

}  // namespace karez::passes
