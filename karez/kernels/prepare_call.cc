// Checks that the kernel of a call supports it, and prepares the kernel.
#include "karez/kernels/prepare_call.h"

#include "karez/base/text.h"
#include "karez/kernels/grouped_calls.h"
#include "karez/plan/call_group.h"

namespace karez::kernels {

PreparedKernel prepare_call(const KernelTable& kernels, const plan::Call& call, const std::string& device) {
  const KernelRow& row = kernels.row(call.kernel);
  CallSpec spec;
  spec.op = row.op;
  spec.attrs = call.attrs;
  spec.device = device;
  spec.team = call.team;
  for (const plan::Operand& o : call.in) spec.in.push_back(o.view);
  for (const plan::Operand& o : call.out) spec.out.push_back(o.view);
  if (!is_supported(row, spec))
    fail("kernel ", call.kernel, " does not support ", print(spec), "; ", kernels.list(row.op));
  const std::int64_t required = workspace_of(row, spec), available = call.workspace ? call.workspace->view.bytes() : 0;
  if (required > available)
    fail("kernel ", call.kernel, " needs ", required, " bytes of workspace for ", print(spec), ", but the plan gives ",
         available);
  return calls_of(spec.attrs) == 1 ? row.prepare(spec) : prepare_group(row, spec);
}

}  // namespace karez::kernels
