// Synthetic collectives for tests: specs of all members, buffers with guards, and expected results.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "karez/comm/collective/box_copy.h"
#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/comm/collective/collective_run.h"
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

// 64-byte aligned bytes between two guards. The guards and the gaps of a view hold a pattern that must not change.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::int64_t size) : size_(size), bytes_(static_cast<std::size_t>(size + 3 * guard), pattern) {
    auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(bytes_.data()) + guard);
    begin_ = static_cast<std::size_t>(round_up(address, 64) - address) + guard;
  }
  std::byte* data() { return bytes_.data() + begin_; }
  std::int64_t size() const { return size_; }
  bool guards_hold() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if ((i < begin_ || i >= begin_ + static_cast<std::size_t>(size_)) && bytes_[i] != pattern) return false;
    return true;
  }
  static constexpr std::byte pattern{0xA5};

 private:
  static constexpr std::int64_t guard = 64;
  std::int64_t size_;
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
};

// Returns the bytes that this member sends in one run, as its links count them. The sum over all members, with S the
// bytes of the logical tensor:
//   all_reduce      ring, direct, recursive: 2 (n-1) S; flat: n (n-1) S
//   reduce_scatter  (n-1) S
//   all_gather      (n-1) S
//   all_to_all      the bytes that move to another member
std::int64_t bytes_sent(const CollectiveSpec& spec);
// Returns this sum for S = `bytes`; `kept_bytes` are those that stay on their member in an all_to_all (S/n if split
// evenly).
std::int64_t planned_bytes(CollectiveKind kind, CollectiveAlgorithm algorithm, int members, std::int64_t bytes,
                           std::int64_t kept_bytes = 0);

// A collective of n members, with each member's input data and expected output data.
struct Case {
  std::string name;
  DType dtype = DType::f32;
  std::vector<CollectiveSpec> specs;            // by member
  std::vector<GuardedBuffer> in, out, staging;  // by member
  std::vector<GuardedBuffer> expected;          // of `out`

  // Fills `out` with the pattern.
  void clear() {
    for (GuardedBuffer& bytes : out) std::fill_n(bytes.data(), bytes.size(), GuardedBuffer::pattern);
  }
  // Returns "" if all results are as expected, otherwise a description of the error.
  std::string difference() {
    for (std::size_t m = 0; m < specs.size(); ++m) {
      if (std::memcmp(out[m].data(), expected[m].data(), static_cast<std::size_t>(out[m].size())) != 0)
        return cat(name, ": member ", m, " has wrong bytes");
      if (!out[m].guards_hold() || !in[m].guards_hold() || !staging[m].guards_hold())
        return cat(name, ": member ", m, " wrote outside its memory");
    }
    return "";
  }
  // Returns the bytes that all members are planned to send.
  std::int64_t planned() const {
    std::int64_t sum = 0;
    for (const CollectiveSpec& spec : specs) sum += bytes_sent(spec);
    return sum;
  }
};

// Returns random strides without overlap: a random order of dimensions, with gaps if `gaps` is true.
Strides random_strides(const Shape& shape, bool gaps, std::mt19937_64& random);

// Returns the sizes of n parts of a dimension; some of them may be 0.
std::vector<std::int64_t> random_parts(int n, std::mt19937_64& random);

Case make_all_reduce(DType dtype, Op op, int n, const Shape& shape, CollectiveAlgorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed);
// The members hold `parts` along `dim`; after an all_to_all they hold `to_parts` along `to_dim`.
Case make_all_gather(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                     CollectiveAlgorithm algorithm, std::int64_t chunk, std::uint64_t seed);
Case make_reduce_scatter(DType dtype, Op op, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                         CollectiveAlgorithm algorithm, std::int64_t chunk, std::uint64_t seed);
Case make_all_to_all(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts, int to_dim,
                     const std::vector<std::int64_t>& to_parts, CollectiveAlgorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed);
// Returns a random small collective, with uneven and empty parts.
Case random_case(int n, std::uint64_t seed);

}  // namespace karez::comm::test
