// Evaluates one call on host bytes: finds, prepares and runs a kernel.
#include "karez/api/trace/evaluator.h"

#include <cstring>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/device/host_array.h"

namespace karez {
namespace {

// Allocates 64-byte aligned memory for a view with any strides.
HostArray allocate(std::int64_t bytes) { return HostArray(TensorType{DType::b8, {std::max<std::int64_t>(bytes, 1)}}); }

}  // namespace

Evaluate make_evaluator(std::shared_ptr<const KernelTable> kernels) {
  return [kernels = std::move(kernels)](const CallSpec& call, const std::vector<HostBytes>& inputs) {
    auto choice = kernels->find(call);
    if (!choice.has_value()) fail("no kernel can evaluate ", print(call), "; ", kernels->list(call.op));
    if (inputs.size() != call.in.size())
      fail(print(call), ": expected ", call.in.size(), " operands, got ", inputs.size());
    std::vector<HostArray> memory;
    std::vector<std::byte*> in, out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (static_cast<std::int64_t>(inputs[i].size()) < call.in[i].bytes())
        fail(print(call), ": operand ", i, " has ", inputs[i].size(), " bytes");
      memory.push_back(allocate(static_cast<std::int64_t>(inputs[i].size())));
      std::memcpy(memory.back().bytes(), inputs[i].data(), inputs[i].size());
      in.push_back(memory.back().bytes());
    }
    for (const View& view : call.out) {
      memory.push_back(allocate(view.bytes()));
      out.push_back(memory.back().bytes());
    }
    HostArray workspace = allocate(choice->workspace);
    kernels->row(choice->kernel).prepare(call)({in, out, workspace.bytes()});
    std::vector<HostBytes> results;
    for (std::size_t i = 0; i < out.size(); ++i) results.emplace_back(out[i], out[i] + call.out[i].bytes());
    return results;
  };
}

}  // namespace karez
