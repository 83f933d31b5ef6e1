// Plain kernels that only move elements: copy, reshape, transpose, slice, broadcast, concat, pad.
#include <cstring>

#include "karez/base/attr_cast.h"
#include "karez/kernels/cpu/copy_plan.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

bool is_unary_copy(const CallSpec& call) { return has_operands(call, 1, 1) && call.in[0].dtype == call.out[0].dtype; }

// Prepares a copy from the input, given its strides and the offset of its first element. The ops copy, transpose, slice
// and broadcast have this form.
PreparedKernel strided_copy(const CallSpec& call, const Strides& from, std::int64_t first) {
  const View& y = call.out[0];
  const std::int64_t element_bytes = size_of(y.dtype);
  return [plan = plan_copy(y.shape, y.strides, from, element_bytes),
          skip = first * element_bytes](const KernelArgs& args) { run(plan, args.out[0], args.in[0] + skip); };
}

PreparedKernel copy(const CallSpec& call) {
  require_fit(call.in[0].shape == call.out[0].shape, call, "shapes differ");
  return strided_copy(call, call.in[0].strides, 0);
}

PreparedKernel reshape(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  require_fit(x.count() == y.count(), call, "element counts differ");
  return [plan = plan_reshape(y.shape, y.strides, x.shape, x.strides, size_of(x.dtype))](const KernelArgs& args) {
    run(plan, args.out[0], args.in[0]);
  };
}

PreparedKernel transpose(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Ints& perm = call.attrs.ints("perm");
  require_fit(perm.size() == x.shape.size() && x.rank() == y.rank(), call,
              "perm and the shapes have different lengths");
  Strides from(perm.size());
  for (std::size_t d = 0; d < perm.size(); ++d) {
    require_fit(perm[d] >= 0 && perm[d] < x.rank() && x.shape[static_cast<std::size_t>(perm[d])] == y.shape[d], call,
                "perm does not match the shapes");
    from[d] = x.strides[static_cast<std::size_t>(perm[d])];
  }
  return strided_copy(call, from, 0);
}

PreparedKernel slice(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Ints& begin = call.attrs.ints("begin");
  require_fit(begin.size() == x.shape.size() && x.rank() == y.rank(), call,
              "begin and the shapes have different lengths");
  for (std::size_t d = 0; d < begin.size(); ++d)
    require_fit(begin[d] >= 0 && begin[d] + y.shape[d] <= x.shape[d], call, "the slice exceeds its input");
  return strided_copy(call, x.strides, y.count() == 0 ? 0 : offset_of(begin, x.strides));
}

PreparedKernel broadcast(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Ints& dims = call.attrs.ints("dims");
  require_fit(dims.size() == x.shape.size(), call, "dims and the input's shape have different lengths");
  Strides from(y.shape.size(), 0);  // new dimensions repeat
  for (std::size_t i = 0; i < dims.size(); ++i) {
    require_fit(dims[i] >= 0 && dims[i] < y.rank() && y.shape[static_cast<std::size_t>(dims[i])] == x.shape[i], call,
                "dims do not match the shapes");
    from[static_cast<std::size_t>(dims[i])] = x.strides[i];
  }
  return strided_copy(call, from, 0);
}

PreparedKernel concat(const CallSpec& call) {
  const View& y = call.out[0];
  const std::int64_t axis = call.attrs.integer("axis");
  require_fit(axis >= 0 && axis < y.rank(), call, "axis is out of range for the output");
  struct Part {
    CopyPlan plan;
    std::int64_t skip = 0;  // bytes before this part in the output
  };
  std::vector<Part> parts;
  std::int64_t begin = 0;
  for (const View& x : call.in) {
    const auto a = static_cast<std::size_t>(axis);
    require_fit(x.rank() == y.rank() && begin + x.shape[a] <= y.shape[a], call, "the inputs do not fit the output");
    parts.push_back(
        {plan_copy(x.shape, y.strides, x.strides, size_of(y.dtype)), begin * y.strides[a] * size_of(y.dtype)});
    begin += x.shape[a];
  }
  require_fit(begin == y.shape[static_cast<std::size_t>(axis)], call, "the inputs do not fill the output");
  return [parts](const KernelArgs& args) {
    for (std::size_t i = 0; i < parts.size(); ++i) run(parts[i].plan, args.out[0] + parts[i].skip, args.in[i]);
  };
}

PreparedKernel pad(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Ints &low = call.attrs.ints("low"), &high = call.attrs.ints("high");
  require_fit(low.size() == y.shape.size() && high.size() == y.shape.size() && x.rank() == y.rank(), call,
              "low, high and the shapes have different lengths");
  for (std::size_t d = 0; d < low.size(); ++d)
    require_fit(low[d] >= 0 && high[d] >= 0 && low[d] + x.shape[d] + high[d] == y.shape[d], call,
                "the output's sizes must be low + input + high");
  return with_type(y.dtype, [&]<class T>() -> PreparedKernel {
    const T value = call.attrs.has("value") ? attr_cast<T>(attr_at(call.attrs, "value")) : T{};
    const Loops fill = loops_over(y.shape, {y.strides}, Order::by_memory);
    const CopyPlan interior = plan_copy(x.shape, y.strides, x.strides, size_of(y.dtype));
    const std::int64_t skip = x.count() == 0 ? 0 : offset_of(low, y.strides) * size_of(y.dtype);
    return [fill, interior, skip, value](const KernelArgs& args) {
      T* out = elements<T>(args.out[0]);
      const std::int64_t count = fill.inner(), step = fill.step(0);
      for_each_run(fill, [&](const auto& offsets) {
        for (std::int64_t i = 0; i < count; ++i) out[offsets[0] + i * step] = value;
      });
      run(interior, args.out[0] + skip, args.in[0]);
    };
  });
}

bool is_nary_copy(const CallSpec& call) {
  return has_operands(call, -1, 1) && !call.in.empty() && all_dtype(call.in, call.out[0].dtype);
}

}  // namespace

std::vector<KernelRow> plain_copy_rows() {
  return {plain_row("copy", is_unary_copy, copy),
          plain_row("reshape", is_unary_copy, reshape),
          plain_row("transpose", is_unary_copy, transpose),
          plain_row("slice", is_unary_copy, slice),
          plain_row("broadcast", is_unary_copy, broadcast),
          plain_row("concat", is_nary_copy, concat),
          plain_row("pad", is_unary_copy, pad)};
}

}  // namespace karez::kernels
