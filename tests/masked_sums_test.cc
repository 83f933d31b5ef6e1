// Tests that infinities, NaN and divisions by 0 give the results of one device if they follow a gather from a table
// split by rows. Such a gather gives zeros for rows on other devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "karez/base/cat.h"
#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr std::int64_t vocabulary = 12, width = 64, rows = 6;

// Rows of ones with a different special value in each row.
HostArray specials() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 0.25, 2};
  HostArray out(TensorType{DType::f64, {rows, width}});
  auto data = out.data<double>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i % width == 3 * (i / width) ? special[i / width] : 1;
  return out;
}

struct Program {
  const char* name;
  // The shapes are index [rows] and factor [rows, width].
  std::function<Tensor(const Parameter& table, Tensor index, Tensor factor)> make;
};

// The result of each program is smaller than the gathered rows. A planner that considered only bytes would therefore
// sum over the devices after the product.
const std::vector<Program>& programs() {
  using P = const Parameter&;
  static const std::vector<Program> list = {
      {"times a mask", [](P t, Tensor i, Tensor m) { return sum(gather(t, i) * m, {1}); }},
      {"divided", [](P t, Tensor i, Tensor m) { return sum(gather(t, i) / m, {1}); }},
      {"after ops that keep zeros",
       [](P t, Tensor i, Tensor m) {
         return sum(reshape(-gather(t, i), {rows, 8, 8}) * 2.0 * reshape(m, {rows, 8, 8}), {1, 2});
       }},
      {"transposed", [](P t, Tensor i, Tensor m) { return sum(transpose(gather(t, i)) / transpose(m), {0}); }},
      {"multiplied as a matrix", [](P t, Tensor i, Tensor m) { return matmul(gather(t, i), transpose(m)); }},
      {"added to another", [](P t, Tensor i, Tensor m) { return sum((gather(t, i) + gather(t, i * 0 + 1)) * m, {1}); }},
      {"joined to a product",
       [](P t, Tensor i, Tensor m) {
         return sum(concat({gather(t, i), matmul(one_hot(i, vocabulary, DType::f64), t)}, 0) * concat({m, m}, 0), {1});
       }},
      {"selected by a condition",
       [](P t, Tensor i, Tensor m) { return sum(where(m > 0.5, gather(t, i), gather(t * 2.0, i)) * m, {1}); }},
      {"added to a whole value", [](P t, Tensor i, Tensor m) { return sum((gather(t, i) + m) * m, {1}); }},
      {"through a constant", [](P t, Tensor i, Tensor m) { return sum(gather(t, i) / 3.0, {1}) * sum(m, {1}); }},
      {"gradient of a few rows",
       [](P t, Tensor i, Tensor m) {
         return sum(grad(sum(gather(t, i) * 0.5), {t})[0] * concat({m, m}, 0), {1});
       }},
  };
  return list;
}

std::vector<double> run(const Program& program, const std::string& axes, const std::vector<LayoutRule>& rules) {
  const Mesh mesh = Mesh::parse(axes);
  World world({.devices = mesh.size()});
  const Parameter table("table", {DType::f64, {vocabulary, width}}, uniform_init(1));
  auto f = compile(world.mesh(mesh.axes),
                   [&](Tensor index, Tensor factor) { return program.make(table, index, factor); }, {.rules = rules});
  HostArray index(TensorType{DType::i64, {rows}});
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i)
    index.data<std::int64_t>()[i] = static_cast<std::int64_t>(5 * i % 7);
  const HostArray out = f(index, specials()).value().read();
  return {out.data<double>().begin(), out.data<double>().end()};
}

TEST(MaskedSums, ATableSplitByRowsGivesTheSpecialValuesOfOneDevice) {
  const std::vector<LayoutRule> split{{"table", P("model", nullptr)}};
  for (const Program& program : programs()) {
    const auto single_device = run(program, "", {});
    EXPECT_TRUE(std::any_of(single_device.begin(), single_device.end(), [](double x) {
      return std::isfinite(x) && x != 0;
    })) << program.name;
    EXPECT_TRUE(std::any_of(single_device.begin(), single_device.end(), [](double x) { return !std::isfinite(x); }))
        << program.name;
    for (const char* axes : {"model=2", "model=4", "data=2,model=2"}) {
      const auto sharded = run(program, axes, split);
      ASSERT_EQ(sharded.size(), single_device.size());
      for (std::size_t i = 0; i < single_device.size(); ++i) {
        const double a = sharded[i], b = single_device[i];
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-12)
            << program.name << " on " << axes << ": element " << i << " is " << a << ", but on one device it is " << b;
      }
    }
  }
}

}  // namespace
}  // namespace karez::tests
