// Plain kernels that generate values: constant, iota, random_uniform. Each element depends only on its logical index.
#include <cstring>

#include "karez/base/attr_cast.h"
#include "karez/base/hash.h"
#include "karez/base/hex.h"
#include "karez/base/philox.h"
#include "karez/kernels/cpu/copy_plan.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// Decodes the bytes of the `data` attribute of a constant, in row-major order.
std::vector<std::byte> decode(const std::string& hex, const CallSpec& call) {
  const std::int64_t bytes = call.out[0].count() * size_of(call.out[0].dtype);
  require(static_cast<std::int64_t>(hex.size()) == 2 * bytes, "constant: ", call.out[0].type(), " needs ", 2 * bytes,
          " hexadecimal digits of data, got ", hex.size());
  return base::bytes_of_hex(hex);
}

PreparedKernel constant(const CallSpec& call) {
  const View& y = call.out[0];
  if (call.attrs.has("data")) {
    return
        [plan = plan_copy(y.shape, y.strides, row_major(y.shape), size_of(y.dtype)),
         data = decode(call.attrs.text("data"), call)](const KernelArgs& args) { run(plan, args.out[0], data.data()); };
  }
  return with_type(y.dtype, [&]<class T>() -> PreparedKernel {
    return [loops = loops_over(y.shape, {y.strides}, Order::by_memory),
            value = attr_cast<T>(attr_at(call.attrs, "value"))](const KernelArgs& args) {
      T* out = elements<T>(args.out[0]);
      for_each_element(loops, [&](const auto& offsets) { out[offsets[0]] = value; });
    };
  });
}

// Returns the strides of an operand whose offset is the index along `axis`: 1 along this axis and 0 elsewhere.
Strides index_strides(int rank, std::int64_t axis) {
  Strides strides(static_cast<std::size_t>(rank), 0);
  strides[static_cast<std::size_t>(axis)] = 1;
  return strides;
}

PreparedKernel iota(const CallSpec& call) {
  const View& y = call.out[0];
  const std::int64_t axis = call.attrs.integer("axis"), start = call.attrs.integer("start", 0);
  require_fit(axis >= 0 && axis < y.rank(), call, "axis is out of range for the output");
  return with_number(y.dtype, [&]<class T>() -> PreparedKernel {
    return [loops = loops_over(y.shape, {y.strides, index_strides(y.rank(), axis)}, Order::by_memory),
            start](const KernelArgs& args) {
      T* out = elements<T>(args.out[0]);
      for_each_element(loops, [&](const auto& offsets) {  // integers wrap around on overflow
        out[offsets[0]] = static_cast<T>(
            static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(offsets[1])));
      });
    };
  });
}

// Element e of the logical tensor (row-major) is word e of the stream (site, step) under the seed, so the numbers of a
// shard do not depend on the mesh.
PreparedKernel random_uniform(const CallSpec& call) {
  const View &y = call.out[0], &state = call.in[0];
  require_fit(state.shape == Shape{2}, call, "the state must be [seed, step]");
  const Ints logical = call.attrs.has("logical") ? call.attrs.ints("logical") : y.shape;
  const Ints begin = call.attrs.has("begin") ? call.attrs.ints("begin") : Ints(y.shape.size(), 0);
  require_fit(logical.size() == y.shape.size() && begin.size() == y.shape.size(), call,
              "begin, logical and the shape have different lengths");
  for (std::size_t d = 0; d < begin.size(); ++d)
    require_fit(begin[d] >= 0 && begin[d] + y.shape[d] <= logical[d], call, "the box exceeds the logical shape");
  const Strides element = row_major(logical);
  const auto site = static_cast<std::uint64_t>(call.attrs.integer("site"));
  return with_float(y.dtype, [&]<class T>() -> PreparedKernel {
    return [loops = loops_over(y.shape, {y.strides, element}, Order::by_memory), first = offset_of(begin, element),
            site, step_stride = state.strides[0]](const KernelArgs& args) {
      const auto* state = elements<std::int64_t>(args.in[0]);
      const auto seed = static_cast<std::uint64_t>(state[0]);
      const std::uint64_t stream = Hash().add(site).add(static_cast<std::uint64_t>(state[step_stride])).value();
      T* out = elements<T>(args.out[0]);
      for_each_element(loops, [&](const auto& offsets) {
        const std::uint32_t word = philox_word(seed, stream, static_cast<std::uint64_t>(first + offsets[1]));
        if constexpr (std::is_same_v<T, float>) out[offsets[0]] = unit_float(word);
        else out[offsets[0]] = static_cast<T>(unit_double(word));
      });
    };
  });
}

}  // namespace

std::vector<KernelRow> plain_source_rows() {
  return {plain_row(
              "constant", [](const CallSpec& call) { return has_operands(call, 0, 1); }, constant),
          plain_row(
              "iota", [](const CallSpec& call) { return has_operands(call, 0, 1) && call.out[0].dtype != DType::b8; },
              iota),
          plain_row(
              "random_uniform",
              [](const CallSpec& call) {
                return has_operands(call, 1, 1) && call.in[0].dtype == DType::i64 && is_float(call.out[0].dtype);
              },
              random_uniform)};
}

}  // namespace karez::kernels
