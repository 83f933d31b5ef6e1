// Kernels that read or add elements at indices along an axis, for any strides: take_along and add_along.
#include <algorithm>
#include <atomic>

#include "karez/kernels/cpu/axis_slices.h"
#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

constexpr std::int64_t cache_bytes = 1 << 18;  // of the slices that are indexed together, a part of the level-2 cache
constexpr std::int64_t line_bytes = 64;

// Prepares the plain row of the same op, which reports an index that is out of range.
PreparedKernel prepare_plain(const CallSpec& call) {
  for (const KernelRow& row : plain_axis_rows())
    if (row.op == call.op) return row.prepare(call);
  fail(ErrorKind::device, "no plain row implements '", call.op, "'");
}

// The indices that are stored locally, offset to offset + count - 1, of `limit`.
struct LocalIndices {
  std::int64_t offset, count, limit;

  LocalIndices(const CallSpec& call, std::int64_t count)
      : offset(call.attrs.integer("offset", 0)),
        count(count),
        limit(call.attrs.integer("limit", offset + count)) {}
  bool is_local(std::int64_t index) const {
    return static_cast<std::uint64_t>(index) - static_cast<std::uint64_t>(offset) < static_cast<std::uint64_t>(count);
  }
  bool is_valid(std::int64_t index) const { return index >= 0 && index < limit; }
};

// Returns how many neighbouring slices are processed together. One slice whose elements are not contiguous would use
// only one element of each cache line, so slices are processed together as long as they fit in the cache.
std::int64_t block_width(const AxisSlices& slices, int indexed, std::int64_t element_bytes) {
  const std::int64_t slice_bytes = slices.size[static_cast<std::size_t>(indexed)] * element_bytes;
  if (slices.step[static_cast<std::size_t>(indexed)] == 1 || slices.loops.step(indexed) != 1) return 1;
  return std::clamp(cache_bytes / std::max<std::int64_t>(slice_bytes, 1), line_bytes / element_bytes,
                    std::max(slices.loops.inner(), line_bytes / element_bytes));
}

// The operands of the slices: the result, the index, and the indexed tensor.
std::optional<AxisSlices> take_slices(const CallSpec& call) {
  if (!has_operands(call, 2, 1) || !is_index(call.in[1]) || call.in[0].dtype == DType::b8 ||
      call.in[0].dtype != call.out[0].dtype || call.in[1].shape != call.out[0].shape || !call.attrs.has("axis"))
    return std::nullopt;
  return axis_slices({call.out[0], call.in[1], call.in[0]}, call.attrs.integer("axis"));
}

// y[k * y_step] = x[k * x_step + index[k * index_step] * from] for k < count. Returns whether all indices are valid.
template <class I, class T>
[[gnu::noinline]] bool take_run(T* y, std::int64_t y_step, const I* index, std::int64_t index_step, const T* x,
                                std::int64_t x_step, std::int64_t from, LocalIndices local, std::int64_t count) {
  bool valid = true;
  const auto take = [&](std::int64_t n, const T* slice) {
    if (local.is_local(n)) [[likely]]
      return slice[(n - local.offset) * from];
    valid &= local.is_valid(n);
    return T{};
  };
  if (y_step == 1 && index_step == 1 && x_step == 0) {
    for (std::int64_t k = 0; k < count; ++k) y[k] = take(index[k], x);
  } else {
    for (std::int64_t k = 0; k < count; ++k) y[k * y_step] = take(index[k * index_step], x + k * x_step);
  }
  return valid;
}

template <class I, class T>
bool take_block(const AxisSlices& slices, const LocalIndices& local, const SliceOffsets& at, std::int64_t width,
                const KernelArgs& args) {
  T* y = elements<T>(args.out[0]) + at[0];
  const I* index = elements<I>(args.in[1]) + at[1];
  const T* x = elements<T>(args.in[0]) + at[2];
  const auto [to, index_step, from] = slices.step;
  if (width == 1) return take_run(y, to, index, index_step, x, 0, from, local, slices.size[1]);
  bool valid = true;
  for (std::int64_t i = 0; i < slices.size[1]; ++i)
    valid &= take_run(y + i * to, slices.loops.step(0), index + i * index_step, slices.loops.step(1), x,
                      slices.loops.step(2), from, local, width);
  return valid;
}

PreparedKernel take_along(const CallSpec& call) {
  const auto slices = take_slices(call);
  require_fit(slices.has_value(), call, "the fast kernel does not support these operands");
  const LocalIndices local(call, slices->size[2]);
  const std::int64_t width = block_width(*slices, 2, size_of(call.out[0].dtype));
  const auto kernel = [&]<class I, class T>() -> PreparedKernel {
    return [slices = *slices, local, width, team = call.team, plain = prepare_plain(call)](const KernelArgs& args) {
      std::atomic<bool> valid = true;
      for_each_slice_block(slices, team, slices.size[1], width, [&](const SliceOffsets& at, std::int64_t count, int) {
        if (!take_block<I, T>(slices, local, at, count, args)) valid = false;
      });
      if (!valid) plain(args);
    };
  };
  return with_index(call.in[1].dtype, [&]<class I>() -> PreparedKernel {
    switch (size_of(call.out[0].dtype)) {  // elements are only copied
      case 1: return kernel.template operator()<I, std::uint8_t>();
      case 2: return kernel.template operator()<I, std::uint16_t>();
      case 4: return kernel.template operator()<I, std::uint32_t>();
      default: return kernel.template operator()<I, std::uint64_t>();
    }
  });
}

// The operands of the slices: the result, the index, and the updates.
std::optional<AxisSlices> add_slices(const CallSpec& call) {
  if (!has_operands(call, 2, 1) || !is_index(call.in[0]) || call.in[1].dtype == DType::b8 ||
      call.in[1].dtype != call.out[0].dtype || call.in[0].shape != call.in[1].shape || !call.attrs.has("axis"))
    return std::nullopt;
  return axis_slices({call.out[0], call.in[0], call.in[1]}, call.attrs.integer("axis"));
}

std::int64_t sums_per_thread(const AxisSlices& slices) { return slices.size[0] * block_width(slices, 0, 8); }

// sums[k * sum_step + index[k * index_step] * to] += update[k * from] for k < count. Returns whether all indices are
// valid.
template <class I, class T>
[[gnu::noinline]] bool add_run(Wide<T>* sums, std::int64_t sum_step, std::int64_t to, const I* index,
                               std::int64_t index_step, const T* update, std::int64_t from, LocalIndices local,
                               std::int64_t count) {
  bool valid = true;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t n = index[k * index_step];
    if (local.is_local(n)) [[likely]]
      sums[k * sum_step + (n - local.offset) * to] += static_cast<Wide<T>>(update[k * from]);
    else valid &= local.is_valid(n);
  }
  return valid;
}

// As in the plain row, sums are accumulated as Wide<T> in the order of the updates, so no sum depends on the team.
template <class I, class T>
bool add_block(const AxisSlices& slices, const LocalIndices& local, const SliceOffsets& at, std::int64_t width,
               const KernelArgs& args, Wide<T>* sums) {
  T* y = elements<T>(args.out[0]) + at[0];
  const I* index = elements<I>(args.in[0]) + at[1];
  const T* updates = elements<T>(args.in[1]) + at[2];
  const auto [to, index_step, from] = slices.step;
  bool valid = true;
  std::fill_n(sums, slices.size[0] * width, Wide<T>{});
  if (width == 1) {
    valid = add_run(sums, 0, 1, index, index_step, updates, from, local, slices.size[1]);
  } else {
    for (std::int64_t i = 0; i < slices.size[1]; ++i)
      valid &= add_run(sums, 1, width, index + i * index_step, slices.loops.step(1), updates + i * from,
                       slices.loops.step(2), local, width);
  }
  const std::int64_t size = slices.size[0], y_step = to, y_next = slices.loops.step(0);
  if (width == 1) {
    for (std::int64_t n = 0; n < size; ++n) y[n * y_step] = static_cast<T>(sums[n]);
  } else {
    for (std::int64_t n = 0; n < size; ++n)
      for (std::int64_t c = 0; c < width; ++c) y[n * y_step + c * y_next] = static_cast<T>(sums[n * width + c]);
  }
  return valid;
}

PreparedKernel add_along(const CallSpec& call) {
  const auto slices = add_slices(call);
  require_fit(slices.has_value(), call, "the fast kernel does not support these operands");
  const LocalIndices local(call, slices->size[0]);
  return with_index(call.in[0].dtype, [&]<class I>() {
    return with_number(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
      return [slices = *slices, local, width = block_width(*slices, 0, 8), per_thread = sums_per_thread(*slices),
              team = call.team, plain = prepare_plain(call)](const KernelArgs& args) {
        std::atomic<bool> valid = true;
        for_each_slice_block(slices, team, slices.size[1] + slices.size[0], width,
                             [&](const SliceOffsets& at, std::int64_t count, int part) {
                               auto* sums = reinterpret_cast<Wide<T>*>(args.workspace) + part * per_thread;
                               if (!add_block<I, T>(slices, local, at, count, args, sums)) valid = false;
                             });
        if (!valid) plain(args);
      };
    });
  });
}

}  // namespace

std::vector<KernelRow> fast_along_rows() {
  KernelRow add = fast_row(
      "add_along", [](const CallSpec& call) { return add_slices(call).has_value(); }, add_along);
  add.workspace = [](const CallSpec& call) {
    const auto slices = add_slices(call);
    const std::int64_t sums = slices ? sums_per_thread(*slices) * call.team : 0;
    return checked_mul(std::max(sums, call.out[0].count()), 8);  // the plain row needs one for each result
  };
  return {fast_row(
              "take_along", [](const CallSpec& call) { return take_slices(call).has_value(); }, take_along),
          add};
}

}  // namespace karez::kernels
