// Synthetic collectives for tests: the specs of all members, their buffers with guards, and the expected results.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "karez/comm/box_copy.h"
#include "karez/comm/collective.h"
#include "karez/comm/local_hub.h"
#include "karez/comm/namespace.h"

namespace karez::comm::test {

enum class Op { sum, max, min };

template <class T> T combine(Op op, T a, T b) {
  if (op == Op::sum) return static_cast<T>(a + b);
  return op == Op::max ? (a < b ? b : a) : (b < a ? b : a);
}

template <class T, Op op> void reduce_elements(std::byte* into, const std::byte* from, std::int64_t count) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) a[i] = combine<T>(op, a[i], b[i]);
}

ReduceFn reduce_for(DType dtype, Op op);

// 64-byte aligned bytes between two guards; the guards, and all gaps of a view, hold a pattern that must not change.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::int64_t size) : size_(size), all_(static_cast<std::size_t>(size + 3 * guard), pattern) {
    auto at = reinterpret_cast<std::uintptr_t>(all_.data()) + guard;
    begin_ =
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(at), 64) - static_cast<std::int64_t>(at)) + guard;
  }
  std::byte* data() { return all_.data() + begin_; }
  std::int64_t size() const { return size_; }
  bool guards_hold() const {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if ((i < begin_ || i >= begin_ + static_cast<std::size_t>(size_)) && all_[i] != pattern) return false;
    return true;
  }
  static constexpr std::byte pattern{0xA5};

 private:
  static constexpr std::int64_t guard = 64;
  std::int64_t size_;
  std::vector<std::byte> all_;
  std::size_t begin_ = 0;
};

// A collective among n members: the data of each before it, and the expected data after it, element by element of the
// local views.
struct Case {
  std::string name;
  DType dtype = DType::f32;
  std::vector<CollectiveSpec> specs;            // by member
  std::vector<GuardedBuffer> in, out, staging;  // by member
  std::vector<GuardedBuffer> expected;          // of `out`

  // Fills `out` with the pattern again.
  void clear() {
    for (GuardedBuffer& bytes : out) std::fill_n(bytes.data(), bytes.size(), GuardedBuffer::pattern);
  }
  // "", or the error.
  std::string difference() {
    for (std::size_t m = 0; m < specs.size(); ++m) {
      if (std::memcmp(out[m].data(), expected[m].data(), static_cast<std::size_t>(out[m].size())) != 0)
        return cat(name, ": member ", m, " has wrong bytes");
      if (!out[m].guards_hold() || !in[m].guards_hold() || !staging[m].guards_hold())
        return cat(name, ": member ", m, " wrote outside its memory");
    }
    return "";
  }
  std::int64_t planned() const {
    std::int64_t sum = 0;
    for (const CollectiveSpec& spec : specs) sum += bytes_sent(spec);
    return sum;
  }
};

// Random strides without overlap: a random order of dimensions, with gaps if `gaps`.
Strides random_strides(const Shape& shape, bool gaps, std::mt19937_64& random);

// Sizes of n parts of a dimension, some of them zero.
std::vector<std::int64_t> random_parts(int n, std::mt19937_64& random);

Case make_all_reduce(DType dtype, Op op, int n, const Shape& shape, Algorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed);
// `parts` along `dim`; for all_to_all the members hold `parts` before (along dim) and `to_parts` after (along to_dim).
Case make_all_gather(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                     Algorithm algorithm, std::int64_t chunk, std::uint64_t seed);
Case make_reduce_scatter(DType dtype, Op op, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                         Algorithm algorithm, std::int64_t chunk, std::uint64_t seed);
Case make_all_to_all(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts, int to_dim,
                     const std::vector<std::int64_t>& to_parts, Algorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed);
// A random small one of them, with uneven and empty parts.
Case random_case(int n, std::uint64_t seed);

}  // namespace karez::comm::test
