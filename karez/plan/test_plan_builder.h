// A builder of small plans for tests and benchmarks: one call per actor or register, consistent by construction.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Builds a plan of one rank. Each triple of device, worker and kind gets one stream, each register with bytes its own
// block.
struct PlanBuilder {
  Plan plan;

  explicit PlanBuilder(int devices = 1, std::string name = "sketch");
  StreamId stream(int device, int worker, StreamKind kind = StreamKind::compute);
  ActorId actor(std::string name, int worker = 0, int device = 0, BodyKind body = BodyKind::compute);
  // `fills` is the period of the producer's port, `reads` the period of the consumers' ports.
  RegisterId edge(ActorId from, std::vector<ActorId> to, int slots = 1, std::int64_t bytes = 0, int fills = 1,
                  int reads = 1);
  // The actor acts `pieces` times in a launch.
  RegisterId start(ActorId a, int pieces = 1) { return edge(session_actor, {a}, 1, 0, 1, pieces); }
  RegisterId done(ActorId a, int pieces = 1) { return edge(a, {session_actor}, 1, 0, pieces, 1); }
  BlockId block(BlockKind kind, int device, std::int64_t bytes, std::string name = "", std::string layout = "");
  void call(ActorId a, std::string kernel, std::vector<Operand> in, std::vector<Operand> out, Attrs attrs = {});
};

Operand in_register(RegisterId reg, View view, std::int64_t offset = 0);
Operand in_block(BlockId block, View view, std::int64_t offset = 0);

}  // namespace karez::plan
