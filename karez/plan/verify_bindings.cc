// Checks that the fetched parts cover each output, and that all actors that read the same input read it equally often.
#include "karez/plan/verify_bindings.h"

#include <map>

#include "karez/plan/external_registers.h"
#include "karez/plan/item_names.h"

namespace karez::plan {
namespace {

// The part of an output that a fetch copies.
struct FetchedPart {
  Ints begin, size, full_shape;
};
FetchedPart part_of(const Actor& fetch) {
  const Shape& size = fetch.bound[0].view.shape;
  if (fetch.slices.empty()) return {Ints(size.size(), 0), size, size};
  return {fetch.slices[0].ints("begin"), size, fetch.slices[0].ints("shape")};
}

// Checks the fetches of one output: each device has at most one part, parts are equal or disjoint, and the parts of all
// ranks cover the output.
void verify_parts(const Plan& plan, const std::string& output, const std::vector<ActorId>& fetches) {
  const FetchedPart reference = part_of(plan.actor(fetches[0]));
  const DType dtype = plan.actor(fetches[0]).bound[0].view.dtype;
  auto device = [&](ActorId i) { return plan.stream(plan.actor(i).stream).device; };
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const FetchedPart part = part_of(plan.actor(fetches[i]));
    if (part.full_shape != reference.full_shape || plan.actor(fetches[i]).bound[0].view.dtype != dtype)
      fail(name_of_actor(plan, fetches[i]), " fetches '", output, "' as a part of ",
           print(TensorType{plan.actor(fetches[i]).bound[0].view.dtype, part.full_shape}), ", but ",
           name_of_actor(plan, fetches[0]), " fetches it as a part of ",
           print(TensorType{dtype, reference.full_shape}));
    bool is_duplicate = false;
    for (std::size_t j = 0; j < i; ++j) {
      const FetchedPart other = part_of(plan.actor(fetches[j]));
      if (device(fetches[i]) == device(fetches[j]))
        fail(name_of_actor(plan, fetches[i]), " and ", name_of_actor(plan, fetches[j]), " both fetch '", output,
             "' on device ", device(fetches[i]));
      bool same = part.begin == other.begin && part.size == other.size, are_disjoint = false;
      for (std::size_t d = 0; d < part.size.size(); ++d)
        are_disjoint |=
            part.begin[d] >= other.begin[d] + other.size[d] || other.begin[d] >= part.begin[d] + part.size[d];
      if (!same && !are_disjoint)
        fail(name_of_actor(plan, fetches[i]), " and ", name_of_actor(plan, fetches[j]), " fetch parts of '", output,
             "' that overlap and differ");
      is_duplicate |= same;
    }
    if (!is_duplicate) covered = checked_add(covered, count_of(part.size));
  }
  require(plan.world > 1 || covered == count_of(reference.full_shape), "plan '", plan.name, "': the fetches of '",
          output, "' cover ", covered, " of its ", count_of(reference.full_shape), " elements");
}

// Checks that each register in an external block is filled once in a launch and is the part that a fetch reads, since
// its memory is that of the result.
void verify_external(const Plan& plan, const ById<ActorId, std::int64_t>& acts) {
  std::map<BlockId, RegisterId> owners;
  for (RegisterId id : plan.registers.ids()) {
    if (!is_external(plan, id)) continue;
    const Register& r = plan.reg(id);
    const Block& block = plan.block(r.block);
    const std::string subject = cat("register r", id, " in the external block b", r.block, " '", block.name, "'");
    const auto [owner, is_first] = owners.emplace(r.block, id);
    require(is_first, subject, ": register r", owner->second, " is in the same block");
    require(r.offset == 0 && r.bytes == block.bytes, subject, " must occupy the ", block.bytes,
            " bytes of the block, got ", r.bytes, " bytes at offset ", r.offset);
    const Actor& producer = plan.actor(r.producer);
    if (producer.body != BodyKind::compute && producer.body != BodyKind::collective)
      fail(subject, " must be filled by a compute actor or a collective, got ", name_of_actor(plan, r.producer));
    for (const Port& port : producer.outputs)
      require(port.reg != id || port.period == acts[r.producer], subject, " must be filled once in a launch, got ",
              times_text(acts[r.producer] / port.period));
    const bool fetched = std::any_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) {
      const Actor& fetch = plan.actor(c);
      if (fetch.body != BodyKind::fetch || fetch.binding != block.name) return false;
      const Operand& o = fetch.bound[0];
      return o.reg == id && o.offset == 0 && o.view.bytes() == r.bytes && o.view == View(o.view.dtype, o.view.shape) &&
             plan.stream(fetch.stream).device == block.device;
    });
    require(fetched, subject, " must be fetched as '", block.name, "', with all its bytes in row-major order");
    for (const Link& link : plan.links) require(link.reg != id, subject, " must not be sent by a link");
  }
}

}  // namespace

void verify_bindings(const Plan& plan, const ById<ActorId, std::int64_t>& acts) {
  std::map<std::string, ActorId> inputs;
  std::map<std::string, std::vector<ActorId>> outputs;
  for (ActorId i : plan.actors.ids()) {
    const Actor& a = plan.actors[i];
    if (a.body == BodyKind::fetch) {
      outputs[a.binding].push_back(i);
      if (acts[i] != 1)
        fail(name_of_actor(plan, i), " acts ", acts[i], " times in a launch, but must fetch '", a.binding,
             "' exactly once");
    }
    if (a.body == BodyKind::input) {
      auto [first_actor, is_first] = inputs.emplace(a.binding, i);
      const auto slice_sets = static_cast<std::int64_t>(a.slices.size() / a.bound.size());
      if (acts[i] % slice_sets != 0)
        fail(name_of_actor(plan, i), " acts ", times_text(acts[i]), " in a launch, which is not a multiple of its ",
             slice_sets, " sets of slices");
      if (!is_first && acts[i] != acts[first_actor->second])
        fail(name_of_actor(plan, i), " reads input '", a.binding, "' ", times_text(acts[i]), " in a launch, but ",
             name_of_actor(plan, first_actor->second), " reads it ", times_text(acts[first_actor->second]));
    }
  }
  for (const auto& [output, fetches] : outputs) verify_parts(plan, output, fetches);
  verify_external(plan, acts);
}

}  // namespace karez::plan
