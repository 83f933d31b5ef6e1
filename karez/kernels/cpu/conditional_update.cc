// Kernels of conditional updates: they run the unconditional update if `apply` is true, and copy the old states
// otherwise.
#include "karez/kernels/cpu/conditional_update.h"

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {

CallSpec without_apply(const CallSpec& call) {
  CallSpec out = call;
  out.in.pop_back();
  return out;
}

bool has_apply(const CallSpec& call) {
  return !call.in.empty() && call.in.back().dtype == DType::b8 && call.in.back().count() == 1;
}

PreparedKernel make_conditional(const CallSpec& call, std::size_t per_in, PreparedKernel step) {
  std::vector<Loops> copies;  // from each old state to its result
  const std::size_t per_out = per_in - 1;
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const View& from = call.in[i / per_out * per_in + i % per_out];
    copies.push_back(loops_over(call.out[i].shape, {call.out[i].strides, from.strides}, Order::by_memory));
  }
  return with_float(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
    return [step = std::move(step), copies = std::move(copies), per_in, per_out](const KernelArgs& args) {
      if (*elements<bool>(args.in.back())) return step({args.in.first(args.in.size() - 1), args.out, args.workspace});
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const T* from = elements<T>(args.in[i / per_out * per_in + i % per_out]);
        T* to = elements<T>(args.out[i]);
        if (to != from) for_each_element(copies[i], [&](const auto& offsets) { to[offsets[0]] = from[offsets[1]]; });
      }
    };
  });
}

}  // namespace karez::kernels
