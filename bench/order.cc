// How much faster is a launch whose nodes are ordered by cost than a launch in the traced order?
//
//   bench_order     launches of train_step's models on meshes and in pipelines, predicted with the default cost table
//
// Both orders are simulated on a representative device of each placement (karez/passes/scheduling/launch_simulation.h);
// nothing is measured, so every machine prints the same.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/parallel_config.h"
#include "karez/api/trace/evaluator.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/order.h"

namespace karez::bench {
namespace {

template <class Model>
void print_row(const char* name, const ParallelConfig& s, const Shape& x, DType dtype, std::int64_t labels) {
  const PlannedStep<Model> planned(s, {dtype, x}, labels);
  const OpTable ops = all_ops();
  passes::Compilation c;
  c.graph = planned.step.graph();
  c.ops = &ops;
  c.evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));
  c.options.microbatches = s.microbatches;
  c.options.batch = x[0];
  passes::run_passes(c, {"canonicalise", "microbatch", "shard", "box"});
  const passes::OrderedGraph ordered = passes::order(std::move(c.graph), ops, c.options.costs, c.options.slots);
  std::printf("%-5s %-16s %6d %12.1f %12.1f %8.3f  %s\n", name, s.axes, s.microbatches, ordered.traced_seconds * 1e6,
              ordered.seconds * 1e6, ordered.seconds / ordered.traced_seconds,
              ordered.seconds < ordered.traced_seconds ? "by cost" : "traced");
  std::fflush(stdout);
}

}  // namespace
}  // namespace karez::bench

int main() {
  using namespace karez;
  using namespace karez::bench;
  std::printf("%-5s %-16s %6s %12s %12s %8s  %s\n", "model", "mesh", "parts", "traced, us", "chosen, us", "ratio",
              "order");
  for (const ParallelConfig& s :
       {ParallelConfig{"data=2,model=2"}, ParallelConfig{"data=4"}, ParallelConfig{"stage=2", 2},
        ParallelConfig{"stage=2", 2, 4}, ParallelConfig{"stage=2,data=2", 2, 4}, ParallelConfig{"stage=4", 4, 8}}) {
    print_row<Mlp>("mlp", s, {64, 1, 28, 28}, DType::f32, 64);
    print_row<Cnn>("cnn", s, {64, 1, 28, 28}, DType::f32, 64);
    print_row<Gpt>("gpt", s, {64, 64}, DType::i32, 64 * 64);
  }
}
