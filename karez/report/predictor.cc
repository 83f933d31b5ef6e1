// Predicts the times of calls, collectives and copies from the cost table.
#include "karez/report/predictor.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "karez/base/text.h"
#include "karez/ops/all_ops.h"
#include "karez/plan/call_bytes.h"
#include "karez/plan/call_group.h"
#include "karez/plan/collective_sequence.h"
#include "karez/plan/external_registers.h"
#include "karez/sbp/transfer.h"

namespace karez::report {
namespace {

double bytes_of(const Operand& operand) {
  return static_cast<double>(std::min(operand.view.count(), operand.view.extent()) * size_of(operand.view.dtype));
}

std::vector<TensorType> types_of(const std::vector<Operand>& operands) {
  std::vector<TensorType> out;
  out.reserve(operands.size());
  for (const Operand& operand : operands) out.push_back(operand.view.type());
  return out;
}

// The work of a call, or of all calls of a group.
Cost cost_of_calls(const OpDef& op, const Call& call) {
  const int calls = calls_of(call.attrs);
  std::vector<TensorType> in = types_of(call.in), out = types_of(call.out);
  in.resize(in.size() / static_cast<std::size_t>(calls)), out.resize(out.size() / static_cast<std::size_t>(calls));
  Cost work = cost_of(op, in, out, call.attrs);
  work.flops *= calls, work.bytes *= calls;
  return work;
}

}  // namespace

const char* const prediction_method =
    "The time of an act is predicted from the cost table, not measured: matrix products and convolutions by their "
    "operations or the bytes they access, whichever takes longer; every other call by its bytes or the functions (e^x, "
    "tanh, ...) that it evaluates; plain kernels at a twentieth of the rates; inputs and fetches by the bytes they "
    "copy; a collective by its messages, the bytes that its member sends, and the bytes that it copies and reduces. "
    "Caches, teams of threads and cores shared by devices are not modelled.";

Predictor::Predictor(CostTable costs) : costs_(std::move(costs)), kernels_(cpu_kernels()), ops_(all_ops()) {}

double Predictor::call(const Call& call) const {
  Cost work;
  double rate = 1;
  const auto& rows = kernels_.rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& r) { return r.name == call.kernel; });
  if (row != rows.end()) {
    rate = row->rate;
    if (const OpDef* op = ops_.find(row->op)) work = cost_of_calls(*op, call);
  }
  if (work.work == WorkClass::none)
    work.work = WorkClass::memory;  // the planner prices this op as an alias, but the plan calls a kernel
  work.bytes = static_cast<double>(plan::bytes_of(call));
  return (costs_.seconds(work) - costs_.call) / rate + costs_.call;
}

// A collective costs as much as the transition step in sbp, but only the part of this member is counted.
double Predictor::collective(const Plan& plan, ActorId id, int transfer) const {
  const Actor& actor = plan.actor(id);
  const Collective& c = *actor.collective;
  const auto& members = plan.communicators[c.communicator].members;
  const auto n = static_cast<double>(members.size());
  const auto own_member =
      std::find(members.begin(), members.end(), plan.devices[plan.stream(actor.stream).device]) - members.begin();
  const double in_bytes = bytes_of(c.in), out_bytes = bytes_of(c.out);
  double sent_bytes = 0, messages = n - 1, copied_bytes = in_bytes;
  if (c.kind == CollectiveKind::all_reduce) {
    const bool one_round = c.algorithm == CollectiveAlgorithm::flat;
    messages = one_round ? n - 1 : c.algorithm == CollectiveAlgorithm::recursive ? 2 * std::log2(n) : 2 * (n - 1);
    sent_bytes = one_round ? (n - 1) * in_bytes : 2 * (n - 1) * in_bytes / n;
    copied_bytes = one_round ? n * in_bytes : in_bytes;
  } else {
    for (const plan::PeerBox& piece : c.sends)
      if (piece.peer != own_member) sent_bytes += static_cast<double>(count_of(piece.size) * size_of(c.in.view.dtype));
    if (c.kind == CollectiveKind::reduce_scatter) copied_bytes = n * out_bytes;
  }
  const LinkCost& link =
      transfer < 0 ? costs_.link : costs_.of_axis(link_axis(plan.transfers[static_cast<std::size_t>(transfer)]));
  return messages * link.alpha + sent_bytes * link.beta + costs_.seconds({.bytes = copied_bytes});
}

ById<ActorId, double> Predictor::acts(const Plan& plan) const {
  const std::vector<int> transfers = transfer_indices(plan);
  ById<ActorId, double> out;
  for (ActorId a : plan.actors.ids()) out.push_back(act(plan, a, transfers[static_cast<std::size_t>(a.index)]));
  const plan::CollectiveSequence sequence(plan);
  for (ActorId a : plan.actors.ids()) {
    if (!plan.actor(a).collective) continue;
    for (ActorId member : sequence.members(a)) out[member] = std::max(out[member], out[a]);
  }
  return out;
}

double Predictor::act(const Plan& plan, ActorId id, int transfer) const {
  const Actor& actor = plan.actor(id);
  if (actor.collective) return collective(plan, id, transfer);
  if (actor.body == BodyKind::fetch && is_in_place(plan, actor)) return 0;
  double seconds = 0;
  for (const Call& call_of_actor : actor.calls) seconds += call(call_of_actor);
  for (const Operand& operand : actor.bound) seconds += costs_.seconds({WorkClass::move, 0, 2 * bytes_of(operand)});
  return seconds;
}

std::string_view link_axis(const Transfer& transfer) {
  return transfer.kind == CollectiveKind::transfer ? sbp::placements_axis : transfer.axis;
}

std::vector<int> transfer_indices(const Plan& plan) {
  std::map<std::string, int> transfer_by_name;  // by name of the collective, which all its members share
  std::vector<int> out(plan.actors.size(), -1);
  std::vector<char> is_taken(plan.transfers.size());
  for (ActorId a : plan.actors.ids()) {
    const Actor& actor = plan.actors[a];
    if (!actor.collective) continue;
    auto [at, is_new] = transfer_by_name.emplace(actor.name, -1);
    for (std::size_t t = 0; is_new && t < plan.transfers.size(); ++t) {
      const Transfer& transfer = plan.transfers[t];
      if (is_taken[t] || transfer.kind != actor.collective->kind ||
          !starts_with(transfer.value, actor.collective->where + " "))
        continue;
      is_taken[t] = 1;
      at->second = static_cast<int>(t);
      break;
    }
    out[static_cast<std::size_t>(a.index)] = at->second;
  }
  return out;
}

CostTable costs_of(const Plan& plan) {
  if (!plan.costs.empty()) return CostTable::parse(plan.costs);
  CostTable out;
  out.origin =
      cat(default_origin, "; the plan has no cost table (`karez doctor --kernels --save` measures this machine)");
  return out;
}

Prediction predict(const Plan& plan, CostTable costs, SimulationOptions options) {
  Prediction out{Predictor(std::move(costs)), {}, {}};
  if (plan.actors.empty()) return out;  // of a rank without devices of the program
  out.acts = out.predictor.acts(plan);
  options.duration = [&](ActorId actor, std::int64_t) { return out.acts[actor]; };
  out.run = simulate(plan, options);
  out.seconds = out.run.makespan / options.launches;
  return out;
}

}  // namespace karez::report
