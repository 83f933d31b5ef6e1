// Uniform f32 random numbers: Philox4x32-10 on several counters at once, bit-identical to karez/base/philox.h.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_random.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "karez/base/hash.h"
#include "karez/base/philox.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Writes elements `first` to `first` + `count` - 1 of a stream of random numbers to `out`.
#if HWY_TARGET == HWY_SCALAR
void uniform_run(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = unit_float(philox_word(seed, stream, first + static_cast<std::uint64_t>(i)));
}
#else
void uniform_run(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::int64_t count, float* out) {
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Repartition<float, decltype(d)> df;
  const auto counters = static_cast<std::int64_t>(hn::Lanes(d));  // each gives four words
  HWY_ALIGN float words[4 * hn::MaxLanes(d)];
  const auto low = hn::Set(d, std::uint64_t{0xFFFFFFFF});
  const auto m0 = hn::BitCast(d32, hn::Set(d, std::uint64_t{0xD2511F53})),
             m1 = hn::BitCast(d32, hn::Set(d, std::uint64_t{0xCD9E8D57}));
  const auto scale = hn::Set(df, 1.0f / 16777216.0f);
  std::uint64_t block = first / 4;
  auto skip = static_cast<std::int64_t>(first % 4);
  while (count > 0) {
    // One counter in each 64-bit lane, with its four words in the low halves of c0 to c3, as the products require.
    const auto index = hn::Add(hn::Set(d, block), hn::Iota(d, 0));
    auto c0 = hn::And(index, low), c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(d, stream & 0xFFFFFFFF), c3 = hn::Set(d, stream >> 32);
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = hn::MulEven(m0, hn::BitCast(d32, c0)), p1 = hn::MulEven(m1, hn::BitCast(d32, c2));
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, std::uint64_t{k0}));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, std::uint64_t{k1}));
      c1 = hn::And(p1, low);
      c3 = hn::And(p0, low);
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const auto unit = [&](auto a, auto b) HWY_ATTR {  // two words of each counter as adjacent floats in [0, 1)
      const auto bits = hn::ShiftRight<8>(hn::BitCast(d32, hn::Or(hn::And(a, low), hn::ShiftLeft<32>(b))));
      return hn::BitCast(d, hn::Mul(hn::ConvertTo(df, hn::BitCast(hn::RebindToSigned<decltype(d32)>(), bits)), scale));
    };
    const bool is_full = skip == 0 && count >= 4 * counters;
    hn::StoreInterleaved2(unit(c0, c1), unit(c2, c3), d, reinterpret_cast<std::uint64_t*>(is_full ? out : words));
    const std::int64_t written = std::min(count, 4 * counters - skip);
    if (!is_full) std::copy(words + skip, words + skip + written, out);
    out += written, count -= written, block += static_cast<std::uint64_t>(counters), skip = 0;
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(uniform_run);

constexpr std::int64_t grain = 32768;

// Returns loops whose innermost loop advances both the memory and the logical index by one. A channels-last result has
// no such loops and is left to the plain kernel.
std::optional<Loops> runs_of(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype != DType::i64 || call.in[0].shape != Shape{2} ||
      call.out[0].dtype != DType::f32)
    return std::nullopt;
  const View& y = call.out[0];
  const Ints logical = call.attrs.has("logical") ? call.attrs.ints("logical") : y.shape;
  if (logical.size() != y.shape.size() || y.count() == 0) return std::nullopt;
  const Loops loops = loops_over(y.shape, {y.strides, row_major(logical)}, Order::by_memory);
  if (loops.inner() > 1 && (loops.step(0) != 1 || loops.step(1) != 1)) return std::nullopt;
  return loops;
}

PreparedKernel random_uniform(const CallSpec& call) {
  const auto loops = runs_of(call);
  require_fit(loops.has_value(), call, "memory and logical index do not advance together");
  const View& y = call.out[0];
  const Ints logical = call.attrs.has("logical") ? call.attrs.ints("logical") : y.shape;
  const Ints begin = call.attrs.has("begin") ? call.attrs.ints("begin") : Ints(y.shape.size(), 0);
  require_fit(begin.size() == y.shape.size(), call, "begin and the shape have different lengths");
  for (std::size_t d = 0; d < begin.size(); ++d)
    require_fit(begin[d] >= 0 && begin[d] + y.shape[d] <= logical[d], call, "the box exceeds the logical shape");
  const std::int64_t first = offset_of(begin, row_major(logical));
  const auto site = static_cast<std::uint64_t>(call.attrs.integer("site"));
  return [loops = *loops, first, site, team = call.team, step_stride = call.in[0].strides[0]](const KernelArgs& args) {
    const auto* state = elements<std::int64_t>(args.in[0]);
    const auto seed = static_cast<std::uint64_t>(state[0]);
    const std::uint64_t stream = Hash().add(site).add(static_cast<std::uint64_t>(state[step_stride])).value();
    float* out = elements<float>(args.out[0]);
    for_each_run(loops, [&](const auto& offsets) {
      parallel_for(team, loops.inner(), grain, [&](std::int64_t from, std::int64_t to, int) {
        HWY_DYNAMIC_DISPATCH(uniform_run)
        (seed, stream, static_cast<std::uint64_t>(first + offsets[1] + from), to - from, out + offsets[0] + from);
      });
    });
  };
}

}  // namespace

std::vector<KernelRow> hwy_random_rows() {
  KernelRow row;
  row.name = "hwy.random_uniform";
  row.op = "random_uniform";
  row.rank = 10;
  row.supports = [](const CallSpec& call) { return runs_of(call).has_value(); };
  row.prepare = random_uniform;
  return {row};
}

}  // namespace karez::kernels
#endif
