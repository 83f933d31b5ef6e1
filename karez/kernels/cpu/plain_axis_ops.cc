// Plain kernels along one axis: cumsum, sort, take_along, add_along, resize and its gradient.
#include <algorithm>

#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/resize_weights.h"

namespace karez::kernels {
namespace {

std::size_t axis_of(const CallSpec& call, const View& view) {
  const std::int64_t axis = call.attrs.integer("axis");
  require_fit(axis >= 0 && axis < view.rank(), call, "axis is out of range for the operand");
  return static_cast<std::size_t>(axis);
}

// Makes loops over all dimensions except the axis.
Loops loops_without_axis(const std::vector<View>& views, std::size_t axis, const CallSpec& call) {
  Shape shape = views[0].shape;
  std::vector<Strides> strides;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  for (const View& view : views) {
    Shape indexed = view.shape;
    strides.push_back(view.strides);
    require_fit(axis < indexed.size(), call, "ranks do not match");
    indexed.erase(indexed.begin() + static_cast<std::ptrdiff_t>(axis));
    strides.back().erase(strides.back().begin() + static_cast<std::ptrdiff_t>(axis));
    require_fit(indexed == shape, call, "sizes do not match");
  }
  return loops_over(shape, strides, Order::logical);
}

PreparedKernel cumsum(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const std::size_t axis = axis_of(call, x);
  require_fit(x.shape == y.shape, call, "sizes do not match");
  const Loops loops = loops_without_axis({y, x}, axis, call);
  const bool reverse = call.attrs.flag("reverse", false);
  const std::int64_t count = x.shape[axis], from = x.strides[axis], to = y.strides[axis];
  return with_number(x.dtype, [&]<class T>() -> PreparedKernel {
    return [loops, reverse, count, from, to](const KernelArgs& args) {
      for_each_element(loops, [&](const auto& offsets) {
        T* y = elements<T>(args.out[0]) + offsets[0];
        const T* x = elements<T>(args.in[0]) + offsets[1];
        Wide<T> sum{};
        for (std::int64_t n = 0; n < count; ++n) {
          const std::int64_t i = reverse ? count - 1 - n : n;
          sum += static_cast<Wide<T>>(x[i * from]);
          y[i * to] = static_cast<T>(sum);
        }
      });
    };
  });
}

// An element and its index, ordered without ties, so that the result does not depend on the sort algorithm.
template <class T> struct IndexedValue {
  T value;
  std::int64_t source_index;
};
template <class T> bool before(const IndexedValue<T>& a, const IndexedValue<T>& b, bool descending) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return descending ? a_nan : b_nan;
  if (!a_nan && a.value != b.value) return descending ? a.value > b.value : a.value < b.value;
  return a.source_index < b.source_index;
}

PreparedKernel sort(const CallSpec& call) {
  const View &x = call.in[0], &values = call.out[0], &indices = call.out[1];
  const std::size_t axis = axis_of(call, x);
  const Loops loops = loops_without_axis({values, indices, x}, axis, call);
  const std::int64_t count = x.shape[axis], first = values.shape[axis];
  require_fit(indices.shape == values.shape && first <= count, call, "sizes do not match");
  const std::int64_t steps[] = {values.strides[axis], indices.strides[axis], x.strides[axis]};
  const bool descending = call.attrs.flag("descending", false);
  return with_number(x.dtype, [&]<class T>() -> PreparedKernel {
    return
        [loops, count, first, descending, to = steps[0], index_to = steps[1], from = steps[2]](const KernelArgs& args) {
          auto* slice = reinterpret_cast<IndexedValue<T>*>(args.workspace);
          const auto order = [descending](const IndexedValue<T>& a, const IndexedValue<T>& b) {
            return before(a, b, descending);
          };
          for_each_element(loops, [&](const auto& offsets) {
            const T* x = elements<T>(args.in[0]) + offsets[2];
            for (std::int64_t i = 0; i < count; ++i) slice[i] = {x[i * from], i};
            if (first == count) std::sort(slice, slice + count, order);
            else std::partial_sort(slice, slice + first, slice + count, order);
            for (std::int64_t i = 0; i < first; ++i) {
              elements<T>(args.out[0])[offsets[0] + i * to] = slice[i].value;
              elements<std::int64_t>(args.out[1])[offsets[1] + i * index_to] = slice[i].source_index;
            }
          });
        };
  });
}

// Loops over the elements of the index. Operand 0 is a view with the shape of the index, and operand 1 is the index.
// Operand 2 is the indexed view, at the start of the slice along the axis in which the index selects an element.
struct AxisIndexing {
  Loops loops;
  std::int64_t step = 0;  // step of the indexed view along the axis
  IndexBounds bounds;
};
AxisIndexing axis_indexing(const CallSpec& call, const View& aligned, const View& index, const View& indexed) {
  const std::size_t axis = axis_of(call, indexed);
  loops_without_axis({aligned, index, indexed}, axis, call);  // checks the sizes
  require_fit(aligned.shape == index.shape, call, "sizes do not match");
  Strides slice = indexed.strides;
  slice[axis] = 0;
  return {loops_over(index.shape, {aligned.strides, index.strides, slice}, Order::logical), indexed.strides[axis],
          IndexBounds(call, index, indexed.shape[axis])};
}

PreparedKernel take_along(const CallSpec& call) {
  const AxisIndexing a = axis_indexing(call, call.out[0], call.in[1], call.in[0]);
  return with_index(call.in[1].dtype, [&]<class I>() {
    return with_number(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
      return [a](const KernelArgs& args) {
        std::int64_t n = 0;
        for_each_element(a.loops, [&](const auto& offsets) {
          const std::int64_t source_index = a.bounds.row(elements<I>(args.in[1])[offsets[1]], n++);
          elements<T>(args.out[0])[offsets[0]] =
              source_index >= 0 ? elements<T>(args.in[0])[offsets[2] + source_index * a.step] : T{};
        });
      };
    });
  });
}

// Sums are accumulated as Wide<T> in the workspace, a row-major array. Updates are added in their logical order.
PreparedKernel add_along(const CallSpec& call) {
  const View& y = call.out[0];
  const View sums(y.dtype, y.shape);
  const AxisIndexing a = axis_indexing(call, call.in[1], call.in[0], sums);
  const Loops out = loops_over(y.shape, {y.strides, sums.strides}, Order::by_memory);
  return with_index(call.in[0].dtype, [&]<class I>() {
    return with_number(y.dtype, [&]<class T>() -> PreparedKernel {
      return [a, out, total = y.count()](const KernelArgs& args) {
        auto* sums = reinterpret_cast<Wide<T>*>(args.workspace);
        std::fill_n(sums, total, Wide<T>{});
        std::int64_t n = 0;
        for_each_element(a.loops, [&](const auto& offsets) {
          const std::int64_t source_index = a.bounds.row(elements<I>(args.in[0])[offsets[1]], n++);
          if (source_index >= 0)
            sums[offsets[2] + source_index * a.step] += static_cast<Wide<T>>(elements<T>(args.in[1])[offsets[0]]);
        });
        for_each_element(
            out, [&](const auto& offsets) { elements<T>(args.out[0])[offsets[0]] = static_cast<T>(sums[offsets[1]]); });
      };
    });
  });
}

// Sums of bytes are integers, as in karez/kernels/cpu/image_resize.h.
template <class T> T resized(const T* x, std::int64_t step, const double* weights, std::int64_t count) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    std::int64_t sum = std::int64_t{1} << (resize_weight_bits - 1);
    for (std::int64_t t = 0; t < count; ++t) sum += x[t * step] * std::int64_t{fixed_resize_weight(weights[t])};
    return static_cast<T>(std::clamp<std::int64_t>(sum >> resize_weight_bits, 0, 255));
  } else {
    double sum = 0;
    for (std::int64_t t = 0; t < count; ++t) sum += static_cast<double>(x[t * step]) * weights[t];
    return static_cast<T>(sum);
  }
}

PreparedKernel resize(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const std::size_t axis = axis_of(call, x);
  const Loops loops = loops_without_axis({y, x}, axis, call);
  const ResizeWeights weights = resize_weights_of(call, axis);
  return with_number(x.dtype, [&]<class T>() -> PreparedKernel {
    return [loops, weights, from = x.strides[axis], to = y.strides[axis]](const KernelArgs& args) {
      for_each_element(loops, [&](const auto& offsets) {
        for (std::size_t i = 0; i < weights.first.size(); ++i)
          elements<T>(args.out[0])[offsets[0] + static_cast<std::int64_t>(i) * to] =
              resized(elements<T>(args.in[0]) + offsets[1] + weights.first[i] * from, from,
                      weights.weights.data() + i * weights.stride, weights.count[i]);
      });
    };
  });
}

bool is_number(const View& view) { return view.dtype != DType::b8; }

}  // namespace

ResizeWeights resize_weights_of(const CallSpec& call, std::size_t axis) {
  const std::int64_t in = call.in[0].shape[axis], out = call.out[0].shape[axis];
  require_fit(in >= 1 && out >= 1, call, "sizes must be at least 1");
  const bool bicubic = call.attrs.flag("bicubic", false);
  return call.op == "resize" ? resize_weights(in, out, bicubic) : transposed(resize_weights(out, in, bicubic), out);
}

std::vector<KernelRow> plain_axis_rows() {
  KernelRow sorts = plain_row(
      "sort",
      [](const CallSpec& call) {
        return has_operands(call, 1, 2) && is_number(call.in[0]) && call.in[0].dtype == call.out[0].dtype &&
               call.out[1].dtype == DType::i64;
      },
      sort);
  sorts.workspace = [](const CallSpec& call) { return checked_mul(call.in[0].shape[axis_of(call, call.in[0])], 16); };
  KernelRow adds = plain_row(
      "add_along",
      [](const CallSpec& call) {
        return has_operands(call, 2, 1) && is_index(call.in[0]) && is_number(call.in[1]) &&
               call.in[1].dtype == call.out[0].dtype;
      },
      add_along);
  adds.workspace = [](const CallSpec& call) { return checked_mul(call.out[0].count(), 8); };
  return {plain_row(
              "cumsum",
              [](const CallSpec& call) {
                return has_operands(call, 1, 1) && is_number(call.in[0]) && call.in[0].dtype == call.out[0].dtype;
              },
              cumsum),
          sorts,
          plain_row(
              "take_along",
              [](const CallSpec& call) {
                return has_operands(call, 2, 1) && is_index(call.in[1]) && is_number(call.in[0]) &&
                       call.in[0].dtype == call.out[0].dtype;
              },
              take_along),
          adds,
          plain_row(
              "resize",
              [](const CallSpec& call) {
                return has_operands(call, 1, 1) && (is_float(call.in[0].dtype) || call.in[0].dtype == DType::u8) &&
                       call.in[0].dtype == call.out[0].dtype;
              },
              resize),
          plain_row(
              "resize_grad",
              [](const CallSpec& call) {
                return has_operands(call, 1, 1) && is_float(call.in[0].dtype) && call.in[0].dtype == call.out[0].dtype;
              },
              resize)};
}

}  // namespace karez::kernels
