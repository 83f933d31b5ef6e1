// Normalises bytes with vector instructions. A division takes more time than all other operations of an element
// together, so vectors multiply by the reciprocal and correct the quotient by its remainder (P. Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). Whether the result is that of the
// division for each byte is tested when the function is made.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/data/highway_bytes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "karez/data/highway_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace karez::data {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

template <class V> HWY_INLINE V divide(V number, V divisor, V reciprocal) {
  const V quotient = hn::Mul(number, reciprocal);
  return hn::MulAdd(hn::NegMulAdd(quotient, divisor, number), reciprocal, quotient);
}

// Returns how many elements were written: as many as whole vectors have.
std::size_t normalise_vectors(const std::uint8_t* bytes, std::size_t count, float mean, float deviation, float* out) {
  const Floats d;
  const hn::RebindToSigned<Floats> integers;
  const hn::Rebind<std::uint8_t, Floats> samples;
  const std::size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, 255.0f), least = hn::Set(d, 1 / 255.0f);
  const auto means = hn::Set(d, mean), deviations = hn::Set(d, deviation), reciprocals = hn::Set(d, 1 / deviation);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto grey = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(samples, bytes + i)));
    hn::StoreU(divide(hn::Sub(divide(grey, most, least), means), deviations, reciprocals), d, out + i);
  }
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::data
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>
#include <numeric>

namespace karez::data {

HWY_EXPORT(normalise_vectors);

ByteNormalisation::ByteNormalisation(float mean, float deviation) : mean_(mean), deviation_(deviation) {
  for (std::size_t byte = 0; byte < values_.size(); ++byte)
    values_[byte] = (static_cast<float>(byte) / 255.0f - mean) / deviation;
  std::array<std::uint8_t, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::array<float, 256> out = {};
  const std::size_t written =
      HWY_DYNAMIC_DISPATCH(normalise_vectors)(bytes.data(), bytes.size(), mean_, deviation_, out.data());
  is_exact_ = written == out.size() && std::memcmp(out.data(), values_.data(), sizeof out) == 0;
}

void ByteNormalisation::apply(std::span<const std::uint8_t> bytes, float* out) const {
  const std::size_t written =
      is_exact_ ? HWY_DYNAMIC_DISPATCH(normalise_vectors)(bytes.data(), bytes.size(), mean_, deviation_, out) : 0;
  std::transform(bytes.begin() + static_cast<std::ptrdiff_t>(written), bytes.end(), out + written,
                 [this](std::uint8_t byte) { return values_[byte]; });
}

}  // namespace karez::data
#endif
