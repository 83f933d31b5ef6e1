// Tests of invalid indices and labels. An index outside the table or an invalid label ends the launch with an error
// that gives the position and the value, the same on every mesh. Ignored labels cause no error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/base/cat.h"
#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

// Returns the text of the error up to the bracket that names the launch. Expects that the error is of kind data, and
// that its line is in this file.
std::string error_of(const Future& out) {
  try {
    out.wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data);
    EXPECT_EQ(error.where.rfind("index_error_test.cc:", 0), 0u) << error.where;
    std::string text = error.what();
    return text.substr(0, text.find(" [launch"));
  }
  return "no error";
}

struct Setting {
  std::string mesh;
  std::vector<LayoutRule> rules;
};

HostArray logits_of(std::int64_t rows, std::int64_t classes) {
  HostArray out(TensorType{DType::f64, {rows, classes}});
  for (std::size_t i = 0; i < out.data<double>().size(); ++i)
    out.data<double>()[i] = std::sin(0.7 * static_cast<double>(i));
  return out;
}

// The table is not split, split by rows, or split by columns, and the index is split or not. The index is a computed
// value, so that kernels check it.
TEST(IndexErrors, AnEmbeddingReportsPositionAndValueOnEverySharding) {
  const std::vector<Setting> settings{{"", {}},
                                      {"data=4", {}},
                                      {"model=4", {{"table", P("model", nullptr)}}},
                                      {"model=3", {{"table", P(nullptr, "model")}}},
                                      {"data=2,model=2", {{"table", P("model", nullptr)}}}};
  for (const auto& [bad, value] :
       std::vector<std::pair<std::size_t, std::int64_t>>{{9, 7}, {4, -1}, {0, std::int64_t{1} << 40}})
    for (const Setting& setting : settings) {
      const Mesh mesh = Mesh::parse(setting.mesh);
      World world({.devices = mesh.size()});
      Parameter table("table", {DType::f32, {7, 6}}, constant_init(2));
      auto rows = compile(world.mesh(mesh.axes), [&](Tensor index) { return sum(gather(table, index * 1)); },
                          {.rules = setting.rules});
      HostArray index(TensorType{DType::i64, {5, 2}});
      for (std::size_t i = 0; i < 10; ++i) index.data<std::int64_t>()[i] = static_cast<std::int64_t>(i % 7);
      EXPECT_EQ(rows(index).item(), 120);
      index.data<std::int64_t>()[bad] = value;
      const std::string text = error_of(rows(index));
      EXPECT_THAT(text,
                  HasSubstr(cat("gather: the index ", value, " at [", bad / 2, ", ", bad % 2, "] is outside 0 to 6")))
          << setting.mesh;
      EXPECT_THAT(text, HasSubstr("index_error_test.cc:")) << setting.mesh;
    }
}

TEST(IndexErrors, AnInvalidLabelIsReportedOnEverySharding) {
  struct Net : nn::Module {
    Net() : Module(DType::f64) {}
    nn::Linear fc{*this, "fc", 6, 5};
  };
  const std::vector<Setting> settings{
      {"", {}},
      {"data=4", {}},
      {"model=4", {{"fc.weight", P("model", nullptr)}, {"fc.bias", P("model")}}},
      {"data=2,model=2", {{"fc.weight", P("model", nullptr)}, {"fc.bias", P("model")}}}};
  for (const DType dtype : {DType::i32, DType::i64})
    for (const std::int64_t value : {5, -1, -100})
      for (const Setting& setting : settings) {
        const Mesh mesh = Mesh::parse(setting.mesh);
        World world({.devices = mesh.size()});
        Net net;
        optim::SGD sgd(net.parameters(), {.lr = 0.1});
        auto step = compile(world.mesh(mesh.axes),
                            [&](Tensor x, Tensor y) {
                              Tensor loss = cross_entropy(net.fc(x), y * 1);
                              sgd.step(grad(loss, net.parameters()));
                              return loss;
                            },
                            {.rules = setting.rules});
        HostArray labels(TensorType{dtype, {9}});
        with_type(dtype, [&]<class T>() {
          for (std::size_t i = 0; i < 9; ++i) labels.data<T>()[i] = static_cast<T>(i % 5);
        });
        EXPECT_TRUE(std::isfinite(step(logits_of(9, 6), labels).item()));
        with_type(dtype, [&]<class T>() { labels.data<T>()[7] = static_cast<T>(value); });
        const std::string text = error_of(step(logits_of(9, 6), labels));
        EXPECT_THAT(text, HasSubstr(cat("one_hot: cross_entropy's label ", value, " at [7] is outside 0 to 4")))
            << setting.mesh;
        EXPECT_THAT(text, HasSubstr("index_error_test.cc:")) << setting.mesh;
      }
}

// The mean loss over the rows whose label is not `ignored`, and the gradient of this loss with respect to the logits,
// both computed from their definitions.
struct Expected {
  double loss = 0;
  std::vector<double> gradient;
};
Expected expected(const HostArray& logits, const std::vector<std::int64_t>& labels, const std::vector<double>& weights,
                  std::int64_t ignored) {
  const std::size_t classes = static_cast<std::size_t>(logits.shape()[1]);
  Expected out;
  double total = 0;
  for (std::size_t r = 0; r < labels.size(); ++r)
    if (labels[r] != ignored) total += weights[r];
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const double* x = logits.data<double>().data() + r * classes;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[c]);
    const bool counts = labels[r] != ignored;
    if (counts) out.loss += weights[r] / total * (std::log(sum) - x[labels[r]]);
    for (std::size_t c = 0; c < classes; ++c)
      out.gradient.push_back(
          counts ? weights[r] / total * (std::exp(x[c]) / sum - (labels[r] == static_cast<std::int64_t>(c))) : 0);
  }
  if (total == 0) out.loss = std::nan("");
  return out;
}

TEST(IgnoreIndex, IgnoredRowsAffectNeitherMeanNorGradientOnAnySharding) {
  const HostArray logits = logits_of(7, 5);
  for (const std::int64_t ignored : {-100, 2})
    for (const bool weighted : {false, true})
      for (const bool all_ignored : {false, true})
        for (const char* text : {"", "data=2", "data=4", "data=2,model=2"}) {
          std::vector<std::int64_t> labels{0, ignored, 3, 4, ignored, 1, 0};
          if (all_ignored) labels.assign(7, ignored);
          const std::vector<double> weights =
              weighted ? std::vector<double>{1, 2, 3, 0.5, 5, 6, 7} : std::vector<double>(7, 1.0);
          const Mesh mesh = Mesh::parse(text);
          World world({.devices = mesh.size()});
          auto loss_of = compile(world.mesh(mesh.axes), [&](Tensor x, Tensor y, Tensor w) {
            const CrossEntropyOptions options{.ignore_index = ignored};
            Tensor loss = weighted ? cross_entropy(x, y, w, options) : cross_entropy(x, y, options) + 0.0 * sum(w);
            return std::pair(loss, grad(loss, std::vector{x})[0]);
          });
          Future out = loss_of(logits, HostArray::of<std::int64_t>({7}, labels), HostArray::of<double>({7}, weights));
          const Expected reference = expected(logits, labels, weights, ignored);
          if (all_ignored) EXPECT_TRUE(std::isnan(out.item(0)));
          else EXPECT_NEAR(out.item(0), reference.loss, 1e-12) << text;
          const HostArray gradient = out.value(1).read();
          for (std::size_t i = 0; i < reference.gradient.size(); ++i)
            EXPECT_NEAR(gradient.data<double>()[i], reference.gradient[i], 1e-12) << text << " " << i;
        }
}

// Other labels out of range are errors, and so is the ignored label if ignore_index is not set.
TEST(IgnoreIndex, OnlyTheNamedLabelIsIgnored) {
  World world;
  auto loss_of =
      compile(world.mesh(), [](Tensor x, Tensor y) { return cross_entropy(x, y * 1, {.ignore_index = -100}); });
  EXPECT_THAT(error_of(loss_of(logits_of(2, 3), HostArray::of<std::int32_t>({2}, {-100, -1}))),
              HasSubstr("label -1 at [1] is outside 0 to 2"));
}

// A masked class (a logit of -inf) adds nothing to the loss and has no gradient.
TEST(CrossEntropy, AMaskedClassGivesAFiniteLoss) {
  World world;
  auto loss_of = compile(world.mesh(), [](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(x, y);
    return std::pair(loss, grad(loss, std::vector{x})[0]);
  });
  Future out = loss_of(HostArray::of<double>({1, 3}, {0, -HUGE_VAL, 0}), HostArray::of<std::int32_t>({1}, {2}));
  EXPECT_NEAR(out.item(0), std::log(2.0), 1e-15);
  const HostArray gradient = out.value(1).read();
  EXPECT_NEAR(gradient.data<double>()[0], 0.5, 1e-15);
  EXPECT_EQ(gradient.data<double>()[1], 0);
  EXPECT_NEAR(gradient.data<double>()[2], -0.5, 1e-15);
}

}  // namespace
}  // namespace karez::tests
