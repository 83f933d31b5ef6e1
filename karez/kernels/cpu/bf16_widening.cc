// Computes products of bf16 operands as f32 products, with conversions before and after. The f32 copies of the operands
// are in the workspace of the call.
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
constexpr std::size_t max_product_inputs = 3;  // two operands and a bias
constexpr std::int64_t grain = 32768;          // fewer elements are not worth a second thread
constexpr std::int64_t alignment = 64;         // of the copies in the workspace, in bytes

// One operand's conversion. Operand 0 of the loops is the f32 copy, operand 1 the bf16 view.
struct Conversion {
  Loops loops;
  std::size_t operand = 0;  // its index among the inputs or the outputs
  std::int64_t offset = 0;  // of the copy in the workspace, in bytes
  std::int64_t outer_grain = 1;
};

// A bf16 call, converted to the form that the f32 row receives.
struct WidenedCall {
  CallSpec call;
  std::vector<Conversion> input_conversions = {}, output_conversions = {};
  std::int64_t copy_bytes = 0;  // size of all f32 copies, which come first in the workspace
};

// Returns strides without gaps, with the dimensions in the same memory order as in the view.
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

WidenedCall widen(const CallSpec& call) {
  WidenedCall out{.call = call};
  out.call.attrs.erase("wide");  // only calls of half types have this attribute
  for (auto [views, conversions] :
       {std::pair{&out.call.in, &out.input_conversions}, std::pair{&out.call.out, &out.output_conversions}})
    for (std::size_t i = 0; i < views->size(); ++i) {
      View& view = (*views)[i];
      if (view.dtype != DType::bf16) continue;
      const View copy(DType::f32, view.shape, is_dense(view.shape, view.strides) ? view.strides : packed_strides(view));
      Conversion conversion{loops_over(view.shape, {copy.strides, view.strides}, Order::by_memory), i, out.copy_bytes};
      conversion.outer_grain =
          std::max<std::int64_t>(grain * conversion.loops.size[0] / std::max<std::int64_t>(copy.count(), 1), 1);
      out.copy_bytes += round_up(copy.bytes(), alignment);
      conversions->push_back(conversion);
      view = copy;
    }
  return out;
}

// Calls convert(f32 index, bf16 index, count) for runs that are contiguous on both sides, otherwise for single
// elements. The threads of the team share the outermost loop.
template <class Convert> void convert_all(const Conversion& conversion, int team, Convert convert) {
  parallel_for(team, conversion.loops.size[0], conversion.outer_grain, [&](std::int64_t begin, std::int64_t end, int) {
    Loops part = conversion.loops;
    part.size[0] = end - begin;
    const std::int64_t f32_begin = begin * part.stride[0][0], bf16_begin = begin * part.stride[1][0];
    const std::int64_t count = part.inner(), f32_step = part.step(0), bf16_step = part.step(1);
    const bool contiguous = f32_step == 1 && bf16_step == 1;
    for_each_run(part, [&](const auto& offset) {
      if (contiguous) return convert(f32_begin + offset[0], bf16_begin + offset[1], count);
      for (std::int64_t i = 0; i < count; ++i)
        convert(f32_begin + offset[0] + i * f32_step, bf16_begin + offset[1] + i * bf16_step, 1);
    });
  });
}

bool is_product_of_bf16(const CallSpec& call) {
  if (call.in.size() < 2 || call.in.size() > max_product_inputs || !has_operands(call, -1, 1)) return false;
  if (call.in[0].dtype != DType::bf16 || !product_types(call.in[0], call.in[1], call.out[0])) return false;
  return call.in.size() == 2 || call.in[2].dtype == DType::f32;
}

KernelRow widening_row(const KernelRow& f32) {
  KernelRow row;
  row.name = cat(f32.name, suffix);
  row.op = f32.op;
  row.rank = f32.rank / 4;  // ranks 10 to 20 become 2 to 5, below the rows that support bf16 themselves
  row.supports = [supports = f32.supports](const CallSpec& call) {
    return is_product_of_bf16(call) && supports(widen(call).call);
  };
  row.workspace = [workspace = f32.workspace](const CallSpec& call) {
    const WidenedCall wide = widen(call);
    return wide.copy_bytes + (workspace ? workspace(wide.call) : 0);
  };
  row.prepare = [prepare = f32.prepare](const CallSpec& call) -> PreparedKernel {
    require_fit(is_product_of_bf16(call), call, "expected a product of bf16 operands");
    WidenedCall wide = widen(call);
    PreparedKernel kernel = prepare(wide.call);
    return [kernel = std::move(kernel), wide = std::move(wide), team = call.team](const KernelArgs& args) {
      std::array<std::byte*, max_product_inputs> in{};
      std::array<std::byte*, 1> out{args.out[0]};
      std::copy(args.in.begin(), args.in.end(), in.begin());
      for (const Conversion& item : wide.input_conversions) {
        const auto* from = elements<std::uint16_t>(args.in[item.operand]);
        float* to = elements<float>(in[item.operand] = args.workspace + item.offset);
        convert_all(item, team, [&](std::int64_t f32, std::int64_t bf16, std::int64_t count) {
          widen_bf16(from + bf16, to + f32, count);
        });
      }
      for (const Conversion& item : wide.output_conversions) out[item.operand] = args.workspace + item.offset;
      kernel({std::span(in).first(args.in.size()), out, args.workspace + wide.copy_bytes});
      for (const Conversion& item : wide.output_conversions) {
        const float* from = elements<float>(out[item.operand]);
        auto* to = elements<std::uint16_t>(args.out[item.operand]);
        convert_all(item, team, [&](std::int64_t f32, std::int64_t bf16, std::int64_t count) {
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
