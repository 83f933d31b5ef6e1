// Builds synthetic collectives: the elements of a logical tensor are computed from their indices, so that each member's
// part is known.
#include "karez/comm/collective/test_collectives.h"

#include <algorithm>

#include "karez/base/philox.h"

namespace karez::comm::test {
namespace {
// Returns the value that `member` holds at a logical index. Floats have full mantissas, so that a different order of
// summation changes the bits.
template <class T> T value_at(const std::vector<std::int64_t>& index, int member, std::uint64_t seed) {
  std::uint64_t number = 0;
  for (std::int64_t i : index) number = number * 131 + static_cast<std::uint64_t>(i);
  std::uint32_t word = philox_word(seed, static_cast<std::uint64_t>(member), number);
  if constexpr (std::is_same_v<T, bool>) return word % 2 == 1;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(unit_double(word)) - static_cast<T>(0.5);
  return static_cast<T>(static_cast<T>(word % 2001) - static_cast<T>(1000));
}

template <class T> T& element(GuardedBuffer& bytes, const View& view, const std::vector<std::int64_t>& index) {
  return reinterpret_cast<T*>(bytes.data())[offset_of(index, view.strides)];
}

// Returns the logical index of a local index in a part that begins at `begin` along `dim`.
std::vector<std::int64_t> logical_index(std::vector<std::int64_t> index, int dim, std::int64_t begin) {
  index[static_cast<std::size_t>(dim)] += begin;
  return index;
}

Shape resized(Shape shape, int dim, std::int64_t size) {
  shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

std::int64_t sum(const std::vector<std::int64_t>& parts, std::size_t count) {
  return std::accumulate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count), std::int64_t{0});
}

TensorBox box(const Shape& shape, int dim, std::int64_t begin, std::int64_t size) {
  TensorBox out{Shape(shape.size(), 0), resized(shape, dim, size)};
  out.begin[static_cast<std::size_t>(dim)] = begin;
  return out;
}

// Returns the reduction over members, in the algorithm's order for an element of owner `owner`.
template <class T>
T reduce_members(const std::vector<std::int64_t>& index, int n, int owner, CollectiveAlgorithm algorithm, Op op,
                 std::uint64_t seed) {
  if (algorithm == CollectiveAlgorithm::recursive &&
      (n & (n - 1)) == 0) {  // pairs at distance n/2 first, then their sums at distance n/4, …
    auto tree = [&](auto& self, int member, int distance) -> T {
      if (distance == n) return value_at<T>(index, member, seed);
      return combine<T>(op, self(self, member, 2 * distance), self(self, member ^ distance, 2 * distance));
    };
    return tree(tree, owner, 1);
  }
  int first = algorithm == CollectiveAlgorithm::ring ? owner + 1 : 0;
  T out = value_at<T>(index, first % n, seed);
  for (int k = 1; k < n; ++k) out = combine<T>(op, out, value_at<T>(index, (first + k) % n, seed));
  return out;
}

// Adds the buffers of all members; `input` and `expected` return the element at a member's local index.
template <class T, class Input, class Expected> void add_buffers(Case& c, Input input, Expected expected) {
  for (std::size_t m = 0; m < c.specs.size(); ++m) {
    const CollectiveSpec& spec = c.specs[m];
    c.in.emplace_back(spec.in.bytes());
    c.out.emplace_back(spec.out.bytes());
    c.expected.emplace_back(spec.out.bytes());
    c.staging.emplace_back(staging_bytes(spec));
    for_each_index(spec.in.shape,
                   [&](const auto& index) { element<T>(c.in[m], spec.in, index) = input(static_cast<int>(m), index); });
    for_each_index(spec.out.shape, [&](const auto& index) {
      element<T>(c.expected[m], spec.out, index) = expected(static_cast<int>(m), index);
    });
  }
}

CollectiveSpec make_spec(CollectiveKind kind, CollectiveAlgorithm algorithm, std::size_t member, std::size_t members,
                         std::int64_t chunk) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.algorithm = algorithm;
  spec.member = static_cast<int>(member);
  spec.members = static_cast<int>(members);
  spec.chunk = chunk;
  return spec;
}

View random_view(DType dtype, const Shape& shape, std::mt19937_64& random) {
  return View(dtype, shape, random_strides(shape, random() % 2 == 0, random));
}

std::string case_name(CollectiveKind kind, CollectiveAlgorithm algorithm, DType dtype, std::size_t n,
                      const Shape& shape, std::int64_t chunk) {
  return cat(name_of(kind), " ", name_of(algorithm), " ", dtype, shape, " n=", n, " chunk=", chunk);
}
}  // namespace

Case make_all_reduce(DType dtype, Op op, int n, const Shape& shape, CollectiveAlgorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Case c{case_name(CollectiveKind::all_reduce, algorithm, dtype, static_cast<std::size_t>(n), shape, chunk),
         dtype,
         {},
         {},
         {},
         {},
         {}};
  View view(dtype, shape, random_strides(shape, false, random));
  for (int m = 0; m < n; ++m) {
    CollectiveSpec spec = make_spec(CollectiveKind::all_reduce, algorithm, static_cast<std::size_t>(m),
                                    static_cast<std::size_t>(n), chunk);
    spec.in = spec.out = view;
    spec.reduce = reduce_for(dtype, op);
    c.specs.push_back(spec);
  }
  std::int64_t size = view.count() / n, longer_ranges = view.count() % n;
  with_type(dtype, [&]<class T>() {
    add_buffers<T>(
        c, [&](int m, const auto& index) { return value_at<T>(index, m, seed); },
        [&](int, const auto& index) {
          std::int64_t element = offset_of(index, view.strides);  // the ranges divide the flat memory
          std::int64_t longer_elements = longer_ranges * (size + 1);
          auto owner = element < longer_elements
                           ? element / (size + 1)
                           : longer_ranges + (element - longer_elements) / std::max<std::int64_t>(size, 1);
          return reduce_members<T>(index, n, static_cast<int>(owner), algorithm, op, seed);
        });
  });
  return c;
}

Case make_all_gather(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                     CollectiveAlgorithm algorithm, std::int64_t chunk, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t n = parts.size();
  Shape logical = resized(rest, dim, sum(parts, n));
  Case c{case_name(CollectiveKind::all_gather, algorithm, dtype, n, logical, chunk), dtype, {}, {}, {}, {}, {}};
  for (std::size_t m = 0; m < n; ++m) {
    CollectiveSpec spec = make_spec(CollectiveKind::all_gather, algorithm, m, n, chunk);
    spec.in = random_view(dtype, resized(rest, dim, parts[m]), random);
    spec.out = random_view(dtype, logical, random);
    for (std::size_t p = 0; p < n; ++p) {
      spec.sends.push_back(whole_box(spec.in));
      spec.receives.push_back(box(logical, dim, sum(parts, p), parts[p]));
    }
    c.specs.push_back(spec);
  }
  with_type(dtype, [&]<class T>() {
    add_buffers<T>(
        c,
        [&](int m, const auto& index) {
          return value_at<T>(logical_index(index, dim, sum(parts, static_cast<std::size_t>(m))), 0, seed);
        },
        [&](int, const auto& index) { return value_at<T>(index, 0, seed); });
  });
  return c;
}

Case make_reduce_scatter(DType dtype, Op op, const Shape& rest, int dim, const std::vector<std::int64_t>& parts,
                         CollectiveAlgorithm algorithm, std::int64_t chunk, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t n = parts.size();
  Shape logical = resized(rest, dim, sum(parts, n));
  Case c{case_name(CollectiveKind::reduce_scatter, algorithm, dtype, n, logical, chunk), dtype, {}, {}, {}, {}, {}};
  for (std::size_t m = 0; m < n; ++m) {
    CollectiveSpec spec = make_spec(CollectiveKind::reduce_scatter, algorithm, m, n, chunk);
    spec.in = random_view(dtype, logical, random);
    spec.out = random_view(dtype, resized(rest, dim, parts[m]), random);
    spec.reduce = reduce_for(dtype, op);
    for (std::size_t p = 0; p < n; ++p) {
      spec.sends.push_back(box(logical, dim, sum(parts, p), parts[p]));
      spec.receives.push_back(whole_box(spec.out));
    }
    c.specs.push_back(spec);
  }
  with_type(dtype, [&]<class T>() {
    add_buffers<T>(
        c, [&](int m, const auto& index) { return value_at<T>(index, m, seed); },
        [&](int m, const auto& index) {
          return reduce_members<T>(
              logical_index(index, dim, sum(parts, static_cast<std::size_t>(m))), static_cast<int>(n), m,
              algorithm == CollectiveAlgorithm::recursive ? CollectiveAlgorithm::direct : algorithm, op, seed);
        });
  });
  return c;
}

Case make_all_to_all(DType dtype, const Shape& rest, int dim, const std::vector<std::int64_t>& parts, int to_dim,
                     const std::vector<std::int64_t>& to_parts, CollectiveAlgorithm algorithm, std::int64_t chunk,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t n = parts.size();
  Shape logical = resized(resized(rest, dim, sum(parts, n)), to_dim, sum(to_parts, n));
  Case c{case_name(CollectiveKind::all_to_all, algorithm, dtype, n, logical, chunk), dtype, {}, {}, {}, {}, {}};
  for (std::size_t m = 0; m < n; ++m) {
    CollectiveSpec spec = make_spec(CollectiveKind::all_to_all, algorithm, m, n, chunk);
    spec.in = random_view(dtype, resized(logical, dim, parts[m]), random);
    spec.out = random_view(dtype, resized(logical, to_dim, to_parts[m]), random);
    for (std::size_t p = 0; p < n; ++p) {
      spec.sends.push_back(box(spec.in.shape, to_dim, sum(to_parts, p), to_parts[p]));
      spec.receives.push_back(box(spec.out.shape, dim, sum(parts, p), parts[p]));
    }
    c.specs.push_back(spec);
  }
  with_type(dtype, [&]<class T>() {
    add_buffers<T>(
        c,
        [&](int m, const auto& index) {
          return value_at<T>(logical_index(index, dim, sum(parts, static_cast<std::size_t>(m))), 0, seed);
        },
        [&](int m, const auto& index) {
          return value_at<T>(logical_index(index, to_dim, sum(to_parts, static_cast<std::size_t>(m))), 0, seed);
        });
  });
  return c;
}

Case random_case(int n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  DType dtype = static_cast<DType>(random() % 5);
  Op op = static_cast<Op>(random() % 3);
  if (dtype == DType::b8 && op == Op::sum) op = Op::max;
  auto algorithm = static_cast<CollectiveAlgorithm>(random() % 4);
  std::int64_t chunk = random() % 2 ? 1 + static_cast<std::int64_t>(random() % 40) : 1 << 18;
  int rank = 1 + static_cast<int>(random() % 4);
  int dim = static_cast<int>(random() % static_cast<std::uint64_t>(rank)), to_dim = (dim + 1) % rank;
  Shape rest;
  for (int d = 0; d < rank; ++d) rest.push_back(random() % 8 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 3));
  std::vector<std::int64_t> parts = random_parts(n, random), to_parts = random_parts(n, random);
  switch (random() % 4) {
    case 0:
      return make_all_reduce(dtype, op, n, resized(rest, dim, static_cast<std::int64_t>(random() % 20)), algorithm,
                             chunk, seed);
    case 1: return make_all_gather(dtype, rest, dim, parts, algorithm, chunk, seed);
    case 2: return make_reduce_scatter(dtype, op, rest, dim, parts, algorithm, chunk, seed);
    default:
      if (rank == 1) return make_all_gather(dtype, rest, dim, parts, algorithm, chunk, seed);
      return make_all_to_all(dtype, rest, dim, parts, to_dim, to_parts, algorithm, chunk, seed);
  }
}

}  // namespace karez::comm::test
