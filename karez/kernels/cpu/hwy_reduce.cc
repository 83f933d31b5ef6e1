// Sums, maxima and minima of f32 and f64 tensors. In memory order, the dimensions must be a kept group, a reduced group
// and a kept group, each of which may be empty; there may be gaps between the elements of the first two groups.
#include "karez/base/text.h"
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/reduce_kind.h"
#include "karez/kernels/cpu/row_reduction_lanes.h"
#include "karez/kernels/cpu/team.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

// Reduces `rows` rows, which are `step` elements apart, into out[0..columns), where columns <= vectors x lanes.
template <class K, int vectors>
HWY_INLINE void reduce_panel(const Element<K>* x, std::int64_t rows, std::int64_t step, std::int64_t columns,
                             Element<K>* out) {
  using X = VecOf<Element<K>>;
  constexpr std::int64_t lanes = lanes_per_vector<K>;
  const TagOf<Element<K>> d;
  const X initial = hn::Set(d, K::identity);
  const auto last = hn::FirstN(d, static_cast<std::size_t>(columns - (vectors - 1) * lanes));
  const auto load = [&](const Element<K>* p, int v) HWY_ATTR {
    return v + 1 == vectors ? load_masked<K>(p + v * lanes, last) : hn::LoadU(d, p + v * lanes);
  };
  X total[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) total[v] = initial;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    constexpr int sets = vectors == 1 ? 4 : 2;  // independent chains of additions; the pragmas keep them in registers
    X sum[sets * vectors];
#pragma GCC unroll 8
    for (int i = 0; i < sets * vectors; ++i) sum[i] = initial;
    const std::int64_t end = std::min(rows, first + chunk);
    std::int64_t r = first;
    for (; r + sets <= end; r += sets) {
#pragma GCC unroll 8
      for (int i = 0; i < sets * vectors; ++i)
        sum[i] = K::join(sum[i], load(x + (r + i / vectors) * step, i % vectors));
    }
    for (; r < end; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[v] = K::join(sum[v], load(x + r * step, v));
    }
#pragma GCC unroll 8
    for (int i = 0; i < sets * vectors; ++i) total[i % vectors] = K::join(total[i % vectors], sum[i]);
  }
#pragma GCC unroll 4
  for (int v = 0; v + 1 < vectors; ++v) hn::StoreU(total[v], d, out + v * lanes);
  hn::BlendedStore(total[vectors - 1], last, d, out + (vectors - 1) * lanes);
}

template <class K> constexpr auto tile = static_cast<std::int64_t>(4096 / sizeof(Element<K>));

// Reduces rows into out[0..columns) with the same bits as reduce_panel<K, 4>. `columns` is a multiple of a vector and
// at most `tile`. The partial results stay in the L1 cache, so long runs of each row are read in the order of memory; a
// panel reads 256 bytes of each row, which the processor does not prefetch.
template <class K>
HWY_INLINE void reduce_tile(const Element<K>* x, std::int64_t rows, std::int64_t step, std::int64_t columns,
                            Element<K>* out) {
  constexpr std::int64_t lanes = lanes_per_vector<K>;
  const TagOf<Element<K>> d;
  const auto initial = hn::Set(d, K::identity);
  HWY_ALIGN Element<K> even[tile<K>];  // of the rows with even numbers in a chunk
  HWY_ALIGN Element<K> odd[tile<K>];
  for (std::int64_t c = 0; c < columns; c += lanes) hn::StoreU(initial, d, out + c);
  for (std::int64_t first = 0; first < rows; first += chunk) {
    for (std::int64_t c = 0; c < columns; c += lanes) {
      hn::Store(initial, d, even + c);
      hn::Store(initial, d, odd + c);
    }
    const std::int64_t end = std::min(rows, first + chunk);
    std::int64_t r = first;
    for (; r + 4 <= end; r += 4) {
      const Element<K>*const row0 = x + r * step, *const row1 = row0 + step, *const row2 = row1 + step,
                             *const row3 = row2 + step;
      for (std::int64_t c = 0; c < columns; c += lanes) {
        const auto a = K::join(hn::Load(d, even + c), hn::LoadU(d, row0 + c));
        const auto b = K::join(hn::Load(d, odd + c), hn::LoadU(d, row1 + c));
        hn::Store(K::join(a, hn::LoadU(d, row2 + c)), d, even + c);
        hn::Store(K::join(b, hn::LoadU(d, row3 + c)), d, odd + c);
      }
    }
    for (; r < end; ++r) {
      Element<K>* const part = (r - first) % 2 == 1 ? odd : even;
      for (std::int64_t c = 0; c < columns; c += lanes)
        hn::Store(K::join(hn::Load(d, part + c), hn::LoadU(d, x + r * step + c)), d, part + c);
    }
    for (std::int64_t c = 0; c < columns; c += lanes)
      hn::StoreU(K::join(K::join(hn::LoadU(d, out + c), hn::Load(d, even + c)), hn::Load(d, odd + c)), d, out + c);
  }
}

template <class K>
HWY_INLINE void reduce_columns(const Element<K>* x, std::int64_t rows, std::int64_t step, std::int64_t columns,
                               Element<K>* out) {
  constexpr std::int64_t lanes = lanes_per_vector<K>;
  // With shorter rows, or with few of them, the partial results of a tile take more time than they save.
  const bool has_tiles = rows >= 16 && columns >= tile<K> / 4;
  for (std::int64_t c = 0; c < columns;) {
    const std::int64_t remaining = columns - c;
    if (has_tiles && remaining >= 4 * lanes) {
      const std::int64_t width = std::min(remaining / (4 * lanes) * (4 * lanes), tile<K>);
      reduce_tile<K>(x + c, rows, step, width, out + c);
      c += width;
    } else if (remaining > 3 * lanes) {
      const std::int64_t width = std::min(remaining, 4 * lanes);
      reduce_panel<K, 4>(x + c, rows, step, width, out + c);
      c += width;
    } else if (remaining > lanes) {
      const std::int64_t width = std::min(remaining, 2 * lanes);
      reduce_panel<K, 2>(x + c, rows, step, width, out + c);
      c += width;
    } else {
      reduce_panel<K, 1>(x + c, rows, step, remaining, out + c);
      c += remaining;
    }
  }
}

template <class K>
HWY_INLINE void reduce_runs(const Element<K>* x, std::int64_t outer, std::int64_t outer_step, std::int64_t count,
                            Element<K>* out) {
  for (std::int64_t a = 0; a < outer; ++a) out[a] = reduce_run<K>(x + a * outer_step, count);
}

// Computes the reductions of `f`, whose results follow each other.
template <class T> void reduce_block_of(ReduceKind kind, const T* x, const ReduceShape& f, T* out) {
  const auto reduce_all = [&]<class K>() HWY_ATTR {
    if (f.inner == 1 && f.reduced_step == 1) return reduce_runs<K>(x, f.outer, f.outer_step, f.reduced, out);
    for (std::int64_t a = 0; a < f.outer; ++a)
      reduce_columns<K>(x + a * f.outer_step, f.reduced, f.reduced_step, f.inner, out + a * f.inner);
  };
  if (kind == ReduceKind::sum) reduce_all.template operator()<Sum<T>>();
  if (kind == ReduceKind::max) reduce_all.template operator()<Max<T>>();
  if (kind == ReduceKind::min) reduce_all.template operator()<Min<T>>();
}

void reduce_block_f32(ReduceKind kind, const float* x, const ReduceShape& f, float* out) {
  reduce_block_of(kind, x, f, out);
}
void reduce_block_f64(ReduceKind kind, const double* x, const ReduceShape& f, double* out) {
  reduce_block_of(kind, x, f, out);
}

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(reduce_block_f32);
HWY_EXPORT(reduce_block_f64);

template <class T> void reduce_block(ReduceKind kind, const T* x, const ReduceShape& f, T* out) {
  if constexpr (std::is_same_v<T, float>) HWY_DYNAMIC_DISPATCH(reduce_block_f32)(kind, x, f, out);
  else HWY_DYNAMIC_DISPATCH(reduce_block_f64)(kind, x, f, out);
}

template <class T> void join_rows(ReduceKind kind, const T* parts, std::int64_t rows, std::int64_t columns, T* out) {
  for (std::int64_t c = 0; c < columns; ++c) {
    T total = parts[c];
    for (std::int64_t r = 1; r < rows; ++r) {
      const T x = parts[r * columns + c];
      total = kind == ReduceKind::sum   ? total + x
              : kind == ReduceKind::max ? ieee_maximum(total, x)
                                        : ieee_minimum(total, x);
    }
    out[c] = total;
  }
}

constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread

std::optional<ReduceShape> reduce_shape_of(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || (call.in[0].dtype != DType::f32 && call.in[0].dtype != DType::f64) ||
      call.out[0].dtype != call.in[0].dtype || !call.attrs.has("axes"))
    return std::nullopt;
  const View &x = call.in[0], &y = call.out[0];
  std::vector<bool> is_reduced(x.shape.size(), false);
  for (const std::int64_t axis : call.attrs.ints("axes")) {
    if (axis < 0 || axis >= x.rank()) return std::nullopt;
    is_reduced[static_cast<std::size_t>(axis)] = true;
  }
  if (x.count() == 0) return std::nullopt;
  // Sorts the dimensions, outermost in memory first, and merges neighbours that are both kept or both reduced.
  struct Group {
    bool is_reduced;
    std::int64_t size, step;
  };
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (x.shape[d] != 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x.strides[a] > x.strides[b]; });
  std::vector<Group> groups;
  for (const std::size_t d : order) {
    if (x.strides[d] <= 0) return std::nullopt;
    if (!groups.empty() && groups.back().is_reduced == is_reduced[d] &&
        groups.back().step == x.shape[d] * x.strides[d]) {
      groups.back().size *= x.shape[d], groups.back().step = x.strides[d];
    } else {
      groups.push_back({is_reduced[d], x.shape[d], x.strides[d]});
    }
  }
  ReduceShape out;
  std::size_t at = 0;
  if (at < groups.size() && !groups[at].is_reduced) out.outer = groups[at].size, out.outer_step = groups[at++].step;
  if (at < groups.size() && groups[at].is_reduced) out.reduced = groups[at].size, out.reduced_step = groups[at++].step;
  if (at < groups.size() && !groups[at].is_reduced && groups[at].step == 1) out.inner = groups[at++].size;
  if (at < groups.size()) return std::nullopt;
  // The result must be dense with its dimensions in the same order.
  std::int64_t step = 1;
  std::vector<std::int64_t> expected_strides(x.shape.size(), 0);
  for (std::size_t i = order.size(); i-- > 0;) {
    if (is_reduced[order[i]]) continue;
    expected_strides[order[i]] = step;
    step *= x.shape[order[i]];
  }
  std::size_t result_dim = 0;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (is_reduced[d]) continue;
    if (result_dim >= y.shape.size() || y.shape[result_dim] != x.shape[d] ||
        (x.shape[d] != 1 && y.strides[result_dim] != expected_strides[d]))
      return std::nullopt;
    ++result_dim;
  }
  if (result_dim != y.shape.size()) return std::nullopt;
  return out;
}

// Returns whether the team splits the reduced dimension, because the kept dimensions are too small to share.
bool splits_reduced(const ReduceShape& reduce_shape, int team) {
  return team > 1 && reduce_shape.outer < team &&
         reduce_shape.outer * reduce_shape.reduced * reduce_shape.inner >= 2 * grain;
}

std::int64_t workspace(const CallSpec& call) {
  const auto reduce_shape = reduce_shape_of(call);
  return reduce_shape && splits_reduced(*reduce_shape, call.team)
             ? reduce_shape->inner * call.team * size_of(call.in[0].dtype)
             : 0;
}

template <ReduceKind kind, class T> PreparedKernel prepare_as(const CallSpec& call) {
  const auto reduce_shape = reduce_shape_of(call);
  require_fit(reduce_shape.has_value(), call, "the fast kernel does not support this reduction");
  return
      [f = *reduce_shape, team = call.team, split = splits_reduced(*reduce_shape, call.team)](const KernelArgs& args) {
        const T* x = elements<T>(args.in[0]);
        T* y = elements<T>(args.out[0]);
        const std::int64_t block_size = f.reduced * f.inner;
        if (!split) {
          parallel_for(team, f.outer, std::max<std::int64_t>(grain / block_size, 1),
                       [&](std::int64_t from, std::int64_t to, int) {
                         ReduceShape part = f;
                         part.outer = to - from;
                         reduce_block(kind, x + from * f.outer_step, part, y + from * f.inner);
                       });
          return;
        }
        T* parts = elements<T>(args.workspace);
        for (std::int64_t a = 0; a < f.outer; ++a) {
          // parallel_for makes `rows` parts: at most one per thread, and each with at least one row.
          const std::int64_t rows = std::min<std::int64_t>(team, f.reduced);
          parallel_for(static_cast<int>(rows), f.reduced, 1, [&](std::int64_t from, std::int64_t to, int number) {
            ReduceShape part = f;
            part.outer = 1, part.reduced = to - from;
            reduce_block(kind, x + a * f.outer_step + from * f.reduced_step, part, parts + number * f.inner);
          });
          join_rows(kind, parts, rows, f.inner, y + a * f.inner);
        }
      };
}

template <ReduceKind kind> PreparedKernel prepare(const CallSpec& call) {
  return call.in[0].dtype == DType::f64 ? prepare_as<kind, double>(call) : prepare_as<kind, float>(call);
}

template <ReduceKind kind> KernelRow row_of(const char* op) {
  KernelRow row;
  row.name = cat("hwy.", op);
  row.op = op;
  row.rank = 10;
  row.supports = [](const CallSpec& call) { return reduce_shape_of(call).has_value(); };
  row.workspace = workspace;
  row.prepare = prepare<kind>;
  return row;
}

}  // namespace

std::vector<KernelRow> hwy_reduce_rows() {
  return {row_of<ReduceKind::sum>("reduce_sum"), row_of<ReduceKind::max>("reduce_max"),
          row_of<ReduceKind::min>("reduce_min")};
}

}  // namespace karez::kernels
#endif
