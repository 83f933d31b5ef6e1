// Compares the predicted times of each call on one thread and on the team.
#include "karez/passes/lowering/teams.h"

#include "karez/plan/call_group.h"

namespace karez::passes {
namespace {

std::vector<TensorType> types_of(const std::vector<View>& views) {
  std::vector<TensorType> out;
  out.reserve(views.size());
  for (const View& view : views) out.push_back(view.type());
  return out;
}

Cost work_of(const OpDef& op, const CallSpec& group) {
  const CallSpec call = first_call(group);
  const auto in = types_of(call.in), out = types_of(call.out);
  Cost work = cost_of(op, in, out, call.attrs);
  if (work.work == WorkClass::none) {
    work.work = WorkClass::memory;  // an op that usually is an alias, such as a reshape, but here moves bytes
    for (const auto* types : {&in, &out})
      for (const TensorType& type : *types) work.bytes += static_cast<double>(type.bytes());
  }
  const int calls = calls_of(group.attrs);
  work.flops *= calls, work.bytes *= calls;
  return work;
}

}  // namespace

LocalProgram choose_teams(LocalProgram program, const OpTable& ops, const KernelCatalog& catalog,
                          const CompileOptions& options) {
  if (options.team == 1) return program;
  for (LocalSegment& segment : program.segments)
    for (LocalCall& call : segment.calls) {
      const OpDef* op = ops.find(call.spec.op);
      if (op == nullptr) continue;
      const std::optional<bool> is_faster = options.costs.team_is_faster(work_of(*op, call.spec));
      if (!is_faster) continue;
      CallSpec spec = call.spec;
      spec.team = *is_faster ? options.team : 1;
      const auto choice = catalog.find(spec);
      if (!choice || choice->kernel != call.kernel) continue;
      call.spec = std::move(spec), call.workspace = choice->workspace;
    }
  return program;
}

}  // namespace karez::passes
