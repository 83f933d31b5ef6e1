// Sorts slices along an axis, for any strides. Elements are encoded as unsigned keys, whose order is the order of the
// op, and sorted with their indices: by digits from the lowest to the highest, which keeps the order of equal keys.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "karez/kernels/cpu/axis_slices.h"
#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

template <std::size_t bytes>
using UnsignedOf = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;
template <class T> using KeyOf = UnsignedOf<sizeof(T)>;
template <class T> constexpr bool is_real = std::is_floating_point_v<T> || tensor::is_half_type<T>;
template <class T> constexpr KeyOf<T> sign_bit = static_cast<KeyOf<T>>(KeyOf<T>{1} << (8 * sizeof(T) - 1));

// The keys of zeros and of NaN stand for several bit patterns. The largest key is that of NaN.
template <class T> constexpr KeyOf<T> zero_key = sign_bit<T>;
template <class T> constexpr KeyOf<T> nan_key = std::numeric_limits<KeyOf<T>>::max();

template <class T> KeyOf<T> encode(T x) {
  using K = KeyOf<T>;
  const auto bits = std::bit_cast<K>(x);
  if constexpr (is_real<T>) {
    constexpr auto infinity = std::bit_cast<K>(std::numeric_limits<T>::infinity());
    const auto magnitude = static_cast<K>(bits & ~sign_bit<T>);
    if (magnitude > infinity) return nan_key<T>;
    if (magnitude == 0) return zero_key<T>;
    return static_cast<K>((bits & sign_bit<T>) != 0 ? ~bits : bits | sign_bit<T>);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(bits ^ sign_bit<T>);
  } else {
    return bits;
  }
}
template <class T> bool is_ambiguous(KeyOf<T> key) { return is_real<T> && (key == zero_key<T> || key == nan_key<T>); }
template <class T> T decode(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (is_real<T>)
    return std::bit_cast<T>(static_cast<K>((key & sign_bit<T>) != 0 ? key ^ sign_bit<T> : ~key));
  else if constexpr (std::is_signed_v<T>) return std::bit_cast<T>(static_cast<K>(key ^ sign_bit<T>));
  else return key;
}

// A key with the index of its element. Keys of up to 32 bits and their indices are one number.
struct Pair {
  std::uint64_t key;
  std::uint64_t index;
  friend bool operator<(const Pair& a, const Pair& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};
template <class T> using ItemOf = std::conditional_t<(sizeof(T) < 8), std::uint64_t, Pair>;
inline std::uint64_t make_item(std::uint32_t key, std::int64_t index) {
  return std::uint64_t{key} << 32 | static_cast<std::uint64_t>(index);
}
inline std::uint64_t key_of(std::uint64_t item) { return item >> 32; }
inline std::uint64_t key_of(const Pair& item) { return item.key; }
inline std::int64_t index_of(std::uint64_t item) { return static_cast<std::int64_t>(item & 0xFFFFFFFF); }
inline std::int64_t index_of(const Pair& item) { return static_cast<std::int64_t>(item.index); }

// Sorts by keys of `key_bits` bits, in digits of `digit_bits`. Returns the buffer that holds the result.
template <int digit_bits, int key_bits, class Item> Item* sort_by_digits(Item* items, Item* other, std::int64_t count) {
  constexpr int digits = (key_bits + digit_bits - 1) / digit_bits;
  constexpr std::size_t buckets = std::size_t{1} << digit_bits;
  std::array<std::array<std::uint32_t, buckets>, digits> counts{};
  const auto digit = [](std::uint64_t key, int d) { return (key >> (d * digit_bits)) & (buckets - 1); };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t key = key_of(items[i]);
    for (int d = 0; d < digits; ++d) ++counts[static_cast<std::size_t>(d)][digit(key, d)];
  }
  for (int d = 0; d < digits; ++d) {
    auto& begin = counts[static_cast<std::size_t>(d)];
    if (begin[digit(key_of(items[0]), d)] == count) continue;  // all digits are equal
    std::uint32_t sum = 0;
    for (std::uint32_t& bucket : begin) sum += std::exchange(bucket, sum);
    for (std::int64_t i = 0; i < count; ++i) other[begin[digit(key_of(items[i]), d)]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

// Returns the buffer that holds the `first` smallest items in order.
template <int key_bits, class Item> Item* sort_items(Item* items, Item* other, std::int64_t count, std::int64_t first) {
  if (first < count / 32) {
    std::partial_sort(items, items + first, items + count);
    return items;
  }
  if (count <= 48) {
    std::sort(items, items + count);
    return items;
  }
  if (count < 4096 || key_bits <= 16) return sort_by_digits<8, key_bits>(items, other, count);
  return sort_by_digits<11, key_bits>(items, other, count);
}

// The operands of the slices are the values, the indices and x.
std::optional<AxisSlices> slices_of(const CallSpec& call) {
  if (!has_operands(call, 1, 2) || call.in[0].dtype == DType::b8 || call.in[0].dtype != call.out[0].dtype ||
      call.out[1].dtype != DType::i64 || call.out[0].shape != call.out[1].shape || !call.attrs.has("axis"))
    return std::nullopt;
  const auto slices = axis_slices({call.out[0], call.out[1], call.in[0]}, call.attrs.integer("axis"));
  if (!slices || slices->size[0] > slices->size[2] || slices->size[2] > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return slices;
}

std::int64_t bytes_per_thread(const CallSpec& call, const AxisSlices& slices) {
  return checked_mul(slices.size[2], size_of(call.in[0].dtype) < 8 ? 16 : 32);  // two buffers
}

template <class T>
void sort_slice(const AxisSlices& slices, const SliceOffsets& at, bool descending, const KernelArgs& args,
                ItemOf<T>* items) {
  using K = KeyOf<T>;
  const std::int64_t count = slices.size[2], first = slices.size[0], from = slices.step[2];
  const T* x = elements<T>(args.in[0]) + at[2];
  const K flip = descending ? std::numeric_limits<K>::max() : K{0};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<K>(encode(x[i * from]) ^ flip);
    if constexpr (sizeof(T) < 8) items[i] = make_item(key, i);
    else items[i] = {key, static_cast<std::uint64_t>(i)};
  }
  const ItemOf<T>* sorted = sort_items<8 * sizeof(T)>(items, items + count, count, first);
  T* values = elements<T>(args.out[0]) + at[0];
  auto* indices = elements<std::int64_t>(args.out[1]) + at[1];
  for (std::int64_t i = 0; i < first; ++i) {
    const auto key = static_cast<K>(static_cast<K>(key_of(sorted[i])) ^ flip);
    const std::int64_t index = index_of(sorted[i]);
    values[i * slices.step[0]] = is_ambiguous<T>(key) ? x[index * from] : decode<T>(key);
    indices[i * slices.step[1]] = index;
  }
}

PreparedKernel sort(const CallSpec& call) {
  const auto slices = slices_of(call);
  require_fit(slices.has_value(), call, "the fast kernel does not support these operands");
  return with_number(call.in[0].dtype, [&]<class T>() -> PreparedKernel {
    return [slices = *slices, descending = call.attrs.flag("descending", false), team = call.team,
            per_thread = bytes_per_thread(call, *slices)](const KernelArgs& args) {
      for_each_slice_block(slices, team, 8 * slices.size[2], 1, [&](const SliceOffsets& at, std::int64_t, int part) {
        sort_slice<T>(slices, at, descending, args, reinterpret_cast<ItemOf<T>*>(args.workspace + part * per_thread));
      });
    };
  });
}

}  // namespace

std::vector<KernelRow> fast_sort_rows() {
  KernelRow row = fast_row(
      "sort", [](const CallSpec& call) { return slices_of(call).has_value(); }, sort);
  row.workspace = [](const CallSpec& call) {
    const auto slices = slices_of(call);
    if (!slices) return std::int64_t{0};
    return checked_mul(bytes_per_thread(call, *slices), std::min<std::int64_t>(call.team, slices->loops.size[0]));
  };
  return {row};
}

}  // namespace karez::kernels
