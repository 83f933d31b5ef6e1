// The checks of a call against its kernel, and the prepared kernel.
#include "karez/kernels/prepare_call.h"

#include "karez/base/text.h"

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
  require(!row.supports || row.supports(spec), "kernel ", call.kernel, " does not support ", print(spec),
          "; available for ", row.op, ": ", kernels.list(row.op));
  const std::int64_t needs = row.workspace ? row.workspace(spec) : 0,
                     has = call.workspace ? call.workspace->view.bytes() : 0;
  require(needs <= has, "kernel ", call.kernel, " needs ", needs, " bytes of workspace for ", print(spec),
          ", but the plan gives ", has);
  return row.prepare(spec);
}

}  // namespace karez::kernels
