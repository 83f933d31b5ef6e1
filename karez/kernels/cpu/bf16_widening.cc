// Products of bf16 as products of f32, with conversions before and after; the f32 copies of operands are in the call's
// workspace.
#include "karez/kernels/cpu/bf16_widening.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {
namespace {

constexpr std::string_view suffix = "_widened";
constexpr std::size_t max_product_inputs = 3;  // with a bias
constexpr std::int64_t grain = 32768;          // fewer elements are not worth a second thread
constexpr std::int64_t alignment = 64;         // of the copies in the workspace

// One operand's conversion. Operand 0 of the loops is the f32 copy, operand 1 the bf16 view.
struct Conversion {
  Loops loops;
  std::size_t operand = 0;  // its index among the inputs or the outputs
  std::int64_t at = 0;      // offset of the copy in the workspace, in bytes
  std::int64_t outer_grain = 1;
};

// A call of bf16 as the f32 row receives it.
struct WidenedCall {
  CallSpec call;
  std::vector<Conversion> before = {}, after = {};
  std::int64_t copies = 0;  // bytes of all f32 copies, which come first in the workspace
};

// Strides without gaps, with the dimensions in the order in which the view stores them.
Strides packed_strides(const View& view) {
  std::vector<std::size_t> order(view.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return view.strides[a] < view.strides[b]; });
  Strides out(view.shape.size());
  std::int64_t step = 1;
  for (std::size_t d : order) {
    out[d] = step;
    step *= view.shape[d];
  }
  return out;
}

WidenedCall widened(const CallSpec& call) {
  WidenedCall out{.call = call};
  out.call.attrs.erase("wide");  // an attribute of half types only
  for (auto [views, conversions] : {std::pair{&out.call.in, &out.before}, std::pair{&out.call.out, &out.after}})
    for (std::size_t i = 0; i < views->size(); ++i) {
      View& view = (*views)[i];
      if (view.dtype != DType::bf16) continue;
      const View copy(DType::f32, view.shape, is_dense(view.shape, view.strides) ? view.strides : packed_strides(view));
      Conversion conversion{loops_over(view.shape, {copy.strides, view.strides}, Order::by_memory), i, out.copies};
      conversion.outer_grain =
          std::max<std::int64_t>(grain * conversion.loops.size[0] / std::max<std::int64_t>(copy.count(), 1), 1);
      out.copies += round_up(copy.bytes(), alignment);
      conversions->push_back(conversion);
      view = copy;
    }
  return out;
}

// Calls convert(f32 element, bf16 element, count) on runs that are contiguous on both sides, otherwise on single
// elements. The team shares the outermost loop.
template <class Convert> void convert_all(const Conversion& conversion, int team, Convert convert) {
  parallel_for(team, conversion.loops.size[0], conversion.outer_grain, [&](std::int64_t begin, std::int64_t end, int) {
    Loops part = conversion.loops;
    part.size[0] = end - begin;
    const std::int64_t wide = begin * part.stride[0][0], half = begin * part.stride[1][0];
    const std::int64_t count = part.inner(), wide_step = part.step(0), half_step = part.step(1);
    const bool contiguous = wide_step == 1 && half_step == 1;
    for_each_run(part, [&](const auto& offset) {
      if (contiguous) return convert(wide + offset[0], half + offset[1], count);
      for (std::int64_t i = 0; i < count; ++i)
        convert(wide + offset[0] + i * wide_step, half + offset[1] + i * half_step, 1);
    });
  });
}

bool is_product_of_bf16(const CallSpec& call) {
  if (call.in.size() < 2 || call.in.size() > max_product_inputs || !takes(call, -1, 1)) return false;
  if (call.in[0].dtype != DType::bf16 || !product_types(call.in[0], call.in[1], call.out[0])) return false;
  return call.in.size() == 2 || call.in[2].dtype == DType::f32;
}

KernelRow widening_row(const KernelRow& f32) {
  KernelRow row;
  row.name = cat(f32.name, suffix);
  row.op = f32.op;
  row.rank = f32.rank / 4;  // 10 to 20 become 2 to 5, below the rows that support bf16 themselves
  row.supports = [supports = f32.supports](const CallSpec& call) {
    return is_product_of_bf16(call) && supports(widened(call).call);
  };
  row.workspace = [workspace = f32.workspace](const CallSpec& call) {
    const WidenedCall wide = widened(call);
    return wide.copies + (workspace ? workspace(wide.call) : 0);
  };
  row.prepare = [prepare = f32.prepare](const CallSpec& call) -> PreparedKernel {
    require_fit(is_product_of_bf16(call), call, "not a product of bf16");
    WidenedCall wide = widened(call);
    PreparedKernel kernel = prepare(wide.call);
    return [kernel = std::move(kernel), wide = std::move(wide), team = call.team](const KernelArgs& args) {
      std::array<std::byte*, max_product_inputs> in{};
      std::array<std::byte*, 1> out{args.out[0]};
      std::copy(args.in.begin(), args.in.end(), in.begin());
      for (const Conversion& each : wide.before) {
        const auto* from = elements<std::uint16_t>(args.in[each.operand]);
        float* to = elements<float>(in[each.operand] = args.workspace + each.at);
        convert_all(each, team, [&](std::int64_t f32, std::int64_t bf16, std::int64_t count) {
          widen_bf16(from + bf16, to + f32, count);
        });
      }
      for (const Conversion& each : wide.after) out[each.operand] = args.workspace + each.at;
      kernel({std::span(in).first(args.in.size()), out, args.workspace + wide.copies});
      for (const Conversion& each : wide.after) {
        const float* from = elements<float>(out[each.operand]);
        auto* to = elements<std::uint16_t>(args.out[each.operand]);
        convert_all(each, team, [&](std::int64_t f32, std::int64_t bf16, std::int64_t count) {
          round_to_bf16(from + f32, to + bf16, count);
        });
      }
    };
  };
  return row;
}

}  // namespace

std::vector<KernelRow> bf16_widening_rows() {
  std::vector<KernelRow> rows;
  for (auto* list : {onednn_rows, hwy_conv_rows})
    for (const KernelRow& row : list())
      for (const std::string_view product : {"matmul", "conv2d", "conv2d_grad_input", "conv2d_grad_weight"})
        if (row.op == product) rows.push_back(widening_row(row));
  return rows;
}

bool is_widened(std::string_view kernel) { return kernel.ends_with(suffix); }

}  // namespace karez::kernels
