// Builds small plans; each call keeps the plan consistent.
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {

PlanBuilder::PlanBuilder(int devices, std::string name) {
  plan.name = std::move(name);
  for (int d = 0; d < devices; ++d) plan.devices.push_back({0, d, "cpu"});
}

StreamId PlanBuilder::stream(int device, int worker, StreamKind kind) {
  for (StreamId i : plan.streams.ids())
    if (plan.streams[i] == Stream{DeviceId(device), kind, worker}) return i;
  plan.streams.push_back({DeviceId(device), kind, worker});
  return StreamId(plan.streams.size() - 1);
}

ActorId PlanBuilder::actor(std::string name, int worker, int device, BodyKind body) {
  Actor a;
  a.stream = stream(device, worker);
  a.name = std::move(name);
  a.body = body;
  a.where = cat(a.name, " at sketch.cc:1");
  plan.actors.push_back(std::move(a));
  return ActorId(plan.actors.size() - 1);
}

RegisterId PlanBuilder::edge(ActorId from, std::vector<ActorId> to, int slots, std::int64_t bytes, int fills,
                             int reads) {
  RegisterId id(plan.registers.size());
  Register r;
  r.producer = from;
  r.slots = slots;
  r.bytes = bytes;
  if (bytes > 0) {
    r.stride = round_up(bytes, 64);
    int device = from == session_actor ? 0 : plan.stream(plan.actor(from).stream).device.index;
    r.block = block(BlockKind::reg, device, r.stride * slots);
  }
  if (from != session_actor) plan.actors[from].outputs.push_back({id, fills});
  for (ActorId a : to)
    if (a != session_actor) plan.actors[a].inputs.push_back({id, reads});
  r.consumers = std::move(to);
  plan.registers.push_back(std::move(r));
  return id;
}

BlockId PlanBuilder::block(BlockKind kind, int device, std::int64_t bytes, std::string name, std::string layout) {
  plan.blocks.push_back({kind, DeviceId(device), bytes, std::move(name), std::move(layout)});
  return BlockId(plan.blocks.size() - 1);
}

void PlanBuilder::call(ActorId a, std::string kernel, std::vector<Operand> in, std::vector<Operand> out, Attrs attrs) {
  Call c;
  c.where = cat(kernel, " at sketch.cc:", plan.actor(a).calls.size() + 2);
  c.kernel = std::move(kernel);
  c.attrs = std::move(attrs);
  c.in = std::move(in);
  c.out = std::move(out);
  plan.actors[a].calls.push_back(std::move(c));
}

Operand in_register(RegisterId reg, View view, std::int64_t offset) { return {reg, {}, offset, std::move(view)}; }

Operand in_block(BlockId block, View view, std::int64_t offset) { return {{}, block, offset, std::move(view)}; }

}  // namespace karez::plan
