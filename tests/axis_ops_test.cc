// Tests of functions along one axis on meshes: sorting, sums, gathering and scattering, with gradients and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const char* const meshes[] = {"", "data=3", "data=2,model=2"};
constexpr std::int64_t rows = 5, columns = 7;

std::vector<double> random_numbers() {
  std::mt19937 random(3);
  std::vector<double> out(static_cast<std::size_t>(rows * columns));
  for (double& x : out) x = static_cast<double>(random() % 9) / 4 - 1;  // with ties
  return out;
}
HostArray matrix(const std::vector<double>& values) { return HostArray::of<double>({rows, columns}, values); }
double at(const std::vector<double>& x, std::int64_t r, std::int64_t c) {
  return x[static_cast<std::size_t>(r * columns + c)];
}

// Returns the column indices of row r, sorted with std::stable_sort.
std::vector<std::int64_t> order_of(const std::vector<double>& x, std::int64_t r, bool descending) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(columns));
  std::iota(out.begin(), out.end(), 0);
  std::stable_sort(out.begin(), out.end(), [&](std::int64_t a, std::int64_t b) {
    return descending ? at(x, r, a) > at(x, r, b) : at(x, r, a) < at(x, r, b);
  });
  return out;
}

template <class T> std::vector<T> list(const Array& array) {
  const HostArray host = array.read();
  return {host.data<T>().begin(), host.data<T>().end()};
}

TEST(AxisOps, TopkGivesTheFirstElementsOfASortAndPassesGradientsToThem) {
  const auto x = random_numbers();
  for (bool largest : {true, false})
    for (std::int64_t k : {1, 3, 7}) {
      std::vector<double> values, slopes(x.size(), 0);
      std::vector<std::int64_t> places;
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto order = order_of(x, r, largest);
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t place = order[static_cast<std::size_t>(i)];
          places.push_back(place);
          values.push_back(at(x, r, place));
          slopes[static_cast<std::size_t>(r * columns + place)] = static_cast<double>(i + 1);
        }
      }
      for (const char* mesh : meshes) {
        World world({.devices = Mesh::parse(mesh).size()});
        auto f = compile(world.mesh(mesh), [&](Tensor in) {
          const Sorted top = topk(in, k, -1, largest);
          Tensor loss = sum(top.values * (cast(iota({k}, 0), DType::f64) + 1.0));
          return std::vector{top.values, top.indices, grad(loss, std::vector{in})[0], argsort(in, 1, largest)};
        });
        const Future out = f(matrix(x));
        EXPECT_EQ(list<double>(out.value(0)), values) << mesh;
        EXPECT_EQ(list<std::int64_t>(out.value(1)), places) << mesh;
        EXPECT_EQ(list<double>(out.value(2)), slopes) << mesh;
        EXPECT_EQ(list<std::int64_t>(out.value(3))[0], places[0]) << mesh;
      }
    }
}

TEST(AxisOps, CumsumAndItsGradientMatchLoops) {
  const auto x = random_numbers();
  for (int axis : {0, -1}) {
    std::vector<double> expected(x.size()), slopes(x.size());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t i = 0; i <= (axis == 0 ? r : c); ++i) sum += axis == 0 ? at(x, i, c) : at(x, r, i);
        const auto element = static_cast<std::size_t>(r * columns + c);
        expected[element] = sum;
        slopes[element] = static_cast<double>(axis == 0 ? rows - r : columns - c);
      }
    for (const char* mesh : meshes) {
      World world({.devices = Mesh::parse(mesh).size()});
      auto f = compile(world.mesh(mesh), [&](Tensor in) {
        Tensor y = cumsum(in, axis);
        return std::pair(y, grad(sum(y), std::vector{in})[0]);
      });
      const Future out = f(matrix(x));
      EXPECT_THAT(list<double>(out.value(0)), Pointwise(::testing::DoubleNear(1e-12), expected)) << mesh;
      EXPECT_EQ(list<double>(out.value(1)), slopes) << mesh;
    }
  }
}

// The negative mean logarithm of the label's probability is cross_entropy, also with classes split over devices.
TEST(AxisOps, ALossByTakeAlongEqualsCrossEntropy) {
  const auto x = random_numbers();
  const HostArray labels = HostArray::of<std::int64_t>({rows}, {3, 0, 6, 2, 2});
  for (const char* mesh : {"", "model=3", "data=2,model=2"})
    for (bool by_class : {false, true}) {
      const Mesh shape = Mesh::parse(mesh);
      World world({.devices = shape.size()});
      auto f = compile(world.mesh(mesh), [&](Tensor logits, Tensor label) {
        const bool split = by_class && shape.size() > 1;
        Tensor in = split ? with_layout(logits, P(nullptr, "model")) : logits;
        Tensor picked = take_along(split ? with_layout(log_softmax(in), P(nullptr, "model")) : log_softmax(in),
                                   reshape(label, {rows, 1}), 1);
        Tensor loss = -mean(picked), reference = cross_entropy(logits, label);
        return std::vector{loss, grad(loss, std::vector{logits})[0], reference,
                           grad(reference, std::vector{logits})[0]};
      });
      const Future out = f(matrix(x), labels);
      EXPECT_NEAR(out.item(0), out.item(2), 1e-12) << mesh;
      EXPECT_THAT(list<double>(out.value(1)), Pointwise(::testing::DoubleNear(1e-12), list<double>(out.value(3))))
          << mesh;
    }
}

TEST(AxisOps, AddAlongComputesAHistogramOfWeights) {
  const HostArray index = HostArray::of<std::int32_t>({2, 4}, {0, 2, 2, 1, 1, 1, 1, 0});
  for (const char* mesh : meshes) {
    World world({.devices = Mesh::parse(mesh).size()});
    auto f = compile(world.mesh(mesh), [&](Tensor i, Tensor w) { return add_along(i, w, 3, -1); });
    EXPECT_EQ(list<double>(f(index, HostArray::of<double>({2, 4}, {1, 2, 4, 8, 1, 2, 4, 8})).value()),
              (std::vector<double>{1, 8, 6, 8, 7, 0}))
        << mesh;
    EXPECT_EQ(list<double>(compile(world.mesh(mesh),
                                   [](Tensor x) { return where(x > 0, x, 0.0); })(HostArray::of<double>({2}, {-1, 2}))
                               .value()),
              (std::vector<double>{0, 2}));
  }
}

TEST(AxisOps, ErrorsNameTheFaultAndTheLine) {
  World world;
  const auto error = [&](const Body& body) {
    try {
      Function(world.mesh(), 1, body, {}, SourceLine::current()).call({matrix(random_numbers())});
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  using In = std::span<const Tensor>;
  const auto wrap = [](Tensor t) { return std::vector{std::move(t)}; };
  EXPECT_THAT(error([&](In in) { return wrap(cumsum(in[0], 2)); }),
              testing::AllOf(HasSubstr("cumsum: axis 2 of f64[5, 7] does not exist"), HasSubstr("axis_ops_test.cc:")));
  EXPECT_THAT(error([&](In in) { return wrap(topk(in[0], 8).values); }),
              HasSubstr("topk: k must be from 0 to the size of axis 1 of f64[5, 7], got 8"));
  EXPECT_THAT(error([&](In in) { return wrap(topk(in[0], -1).values); }), HasSubstr("of f64[5, 7], got -1"));
  EXPECT_THAT(error([&](In in) { return wrap(take_along(in[0], in[0])); }),
              HasSubstr("take_along: an index must be i32 or i64, got f64[5, 7]"));
  World two_devices({.devices = 2});
  auto f = compile(two_devices.mesh("data=2"),
                   [](Tensor x, Tensor i) { return take_along(x, i * 1, 1); });  // an index that is not an argument
  try {
    f(matrix(random_numbers()), HostArray::of<std::int64_t>({rows, 1}, {0, 1, 2, 7, 4})).wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("take_along: the index 7 at [3, 0] is outside 0 to 6"));
  }
}

}  // namespace
}  // namespace karez::tests
