// Tests of scan. Results are compared with plain loops; gradients are compared with difference quotients and with the
// gradients of the unrolled body.
#include "karez/api/scan.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/interactive.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<double> doubles(const HostArray& array) {
  return {array.data<double>().begin(), array.data<double>().end()};
}

// The following two functions compute h = tanh(matmul(h, w) + row) for each row of x [t, n, d], and output h * h.
Scanned scanned_loop(const Tensor& h, const Tensor& x, const Tensor& w, bool reverse = false) {
  return scan(
      [&](const auto& carry, const auto& rows) {
        const Tensor next = tanh(matmul(carry[0], w) + rows[0]);
        return Scanned{{next}, {next * next}};
      },
      {h}, {x}, {.reverse = reverse});
}
Scanned unrolled_loop(Tensor h, const Tensor& x, const Tensor& w, bool reverse = false) {
  const std::int64_t steps = x.size(0), n = x.size(1), d = x.size(2);
  std::vector<Term> rows(static_cast<std::size_t>(steps), Term(h));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    h = tanh(matmul(h, w) + reshape(slice(x, {t, 0, 0}, {1, n, d}), {n, d}));
    rows[static_cast<std::size_t>(t)] = reshape(h * h, {1, n, d});
  }
  return {{h}, {concat(rows)}};
}

TEST(Scan, AScanGivesTheResultsOfALoopOverNumbers) {
  World world;
  Interactive scope(world.mesh());
  const Tensor x = HostArray::of<double>({4}, {1, 2, 3, 4});
  const auto sums = [](const auto& carry, const auto& rows) {
    return Scanned{{carry[0] + rows[0]}, {carry[0] * 10, rows[0]}};
  };
  const Scanned forwards = scan(sums, {Tensor(HostArray::of<double>({}, {100}))}, {x});
  EXPECT_EQ(forwards.carry[0].item(), 110);
  EXPECT_THAT(doubles(forwards.ys[0].read()), ElementsAre(1000, 1010, 1030, 1060));
  EXPECT_THAT(doubles(forwards.ys[1].read()), ElementsAre(1, 2, 3, 4));
  const Scanned backwards = scan(sums, {Tensor(HostArray::of<double>({}, {100}))}, {x}, {.reverse = true});
  EXPECT_EQ(backwards.carry[0].item(), 110);
  EXPECT_THAT(doubles(backwards.ys[0].read()), ElementsAre(1090, 1070, 1040, 1000));
  const Scanned powers =
      scan([](const auto& carry, const auto&) { return Scanned{{carry[0] * 2}}; }, {Tensor(1)}, {}, {.length = 10});
  EXPECT_EQ(powers.carry[0].item<int>(), 1024);
}

TEST(Scan, AScanIsOneNodeWithARegionThatCanBePrintedParsedAndUnrolled) {
  World world;
  const Parameter w("w", {DType::f64, {3, 3}}, uniform_init(1));
  auto f = compile(world.mesh(),
                   [&](Tensor h, Tensor x) {
                     const Scanned out = scan(
                         [&](const auto& carry, const auto& rows) {  // the first read of w
                           return Scanned{{tanh(matmul(carry[0], w) + rows[0])}};
                         },
                         {h}, {x});
                     return out.carry[0] + sum(w);
                   },
                   {.keep_text = true});
  const HostArray h = random_doubles({2, 3}, 1), x = random_doubles({5, 2, 3}, 2);
  const std::vector<double> last_carry = doubles(f(h, x).value().read());
  int scans = 0;
  for (const Node& node : f.graph().nodes) scans += node.op->name == "scan" && node.regions.size() == 1;
  EXPECT_EQ(scans, 1);
  EXPECT_EQ(f.graph().variables.size(), 1u);
  const OpTable ops = all_ops();
  const std::string text = f.graph_text();
  EXPECT_THAT(text, HasSubstr("graph scan("));
  EXPECT_EQ(graph::print(parse_graph(text, ops)), text);
  EXPECT_EQ(f.passes()[0].name, "unroll");
  EXPECT_THAT(f.passes()[0].text, Not(HasSubstr("scan(")));
  const std::vector<double> weight = doubles(world.read(w));
  double total = 0;
  for (double v : weight) total += v;
  for (int n = 0; n < 2; ++n) {
    std::vector<double> state(h.data<double>().begin() + 3 * n, h.data<double>().begin() + 3 * n + 3);
    for (int t = 0; t < 5; ++t) {
      std::vector<double> next(3);
      for (int j = 0; j < 3; ++j) {
        next[j] = x.data<double>()[(t * 2 + n) * 3 + j];
        for (int i = 0; i < 3; ++i) next[j] += state[i] * weight[i * 3 + j];
        next[j] = std::tanh(next[j]);
      }
      state = next;
    }
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(last_carry[n * 3 + j], state[j] + total, 1e-12);
  }
}

TEST(Scan, AScanAndItsGradientsEqualThoseOfTheUnrolledBodyOnEveryMesh) {
  World world({.devices = 4});
  const HostArray h = random_doubles({4, 3}, 1), x = random_doubles({5, 4, 3}, 2), w = random_doubles({3, 3}, 3),
                  seed = random_doubles({5, 4, 3}, 4);
  for (bool reverse : {false, true})
    for (const char* mesh : {"", "data=2", "data=2,model=2"}) {
      auto run = [&](auto loop) {
        auto f = compile(world.mesh(mesh), [&, loop](Tensor a, Tensor b, Tensor c, Tensor weight) {
          const Scanned out = loop(a, b, c, reverse);
          const Tensor loss = sum(out.ys[0] * weight) + sum(out.carry[0] * out.carry[0]);
          std::vector<Tensor> all = grad(loss, {a, b, c});
          all.insert(all.begin(), {out.carry[0], out.ys[0]});
          return all;
        });
        const Future future = f(h, x, w, seed);
        std::vector<double> all;
        for (std::size_t i = 0; i < future.size(); ++i)
          for (double v : doubles(future.value(i).read())) all.push_back(v);
        return all;
      };
      const auto scanned = run(scanned_loop), unrolled = run(unrolled_loop);
      ASSERT_EQ(scanned.size(), unrolled.size());
      for (std::size_t i = 0; i < scanned.size(); ++i)
        EXPECT_NEAR(scanned[i], unrolled[i], 1e-12) << i << " on " << mesh << (reverse ? " reversed" : "");
    }
}

TEST(Scan, GradientsEqualDifferenceQuotients) {
  World world;
  Interactive scope(world.mesh());
  const auto loss = [](Tensor h, Tensor x, Tensor w) {
    const Scanned out = scanned_loop(h, x, w);
    return sum(exp(out.ys[0])) + sum(out.carry[0]);
  };
  HostArray operands[] = {random_doubles({2, 2}, 1), random_doubles({3, 2, 2}, 2), random_doubles({2, 2}, 3)};
  const auto result = value_and_grad(loss, {.arguments = {0, 1, 2}})(operands[0], operands[1], operands[2]);
  const double step = 1e-5;
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const HostArray gradient = result.gradients[operand].read();
    for (std::size_t i = 0; i < gradient.data<double>().size(); ++i) {
      double& element_value = operands[operand].data<double>()[i];
      const double old_value = element_value;
      element_value = old_value + step;
      const double loss_above = loss(operands[0], operands[1], operands[2]).item();
      element_value = old_value - step;
      const double loss_below = loss(operands[0], operands[1], operands[2]).item();
      element_value = old_value;
      EXPECT_NEAR(gradient.data<double>()[i], (loss_above - loss_below) / (2 * step), 1e-7) << operand << " " << i;
    }
  }
}

TEST(Scan, ScansCanBeNestedAndDifferentiatedTwice) {
  World world;
  Interactive scope(world.mesh());
  // The outer scan has 3 trips and the inner scan has 2, so c is multiplied by x six times, which gives c * x^6.
  const auto power = [](Tensor c, Tensor x) {
    return scan(
               [&](const auto& outer, const auto&) {
                 return Scanned{scan([&](const auto& inner, const auto&) { return Scanned{{inner[0] * x}}; },
                                     {outer[0]}, {}, {.length = 2})
                                    .carry};
               },
               {c}, {}, {.length = 3})
        .carry[0];
  };
  const Tensor c = HostArray::of<double>({}, {5}), x = HostArray::of<double>({}, {2});
  EXPECT_EQ(power(c, x).item(), 320);
  const auto first = value_and_grad(power, {.arguments = {0, 1}})(c, x);
  EXPECT_EQ(first.gradients[0].item(), 64);
  EXPECT_EQ(first.gradients[1].item(), 5 * 6 * 32);
  const auto second = value_and_grad(
      [&](Tensor v) { return value_and_grad([&](Tensor u) { return power(c, u); })(v).gradients[0]; })(x);
  EXPECT_EQ(second.gradients[0].item(), 5 * 30 * 16);
}

TEST(Scan, RandomNumbersDifferBetweenTripsAndAreReusedByTheGradient) {
  World world({.devices = 2});
  const HostArray ones = HostArray::of<double>({64}, std::vector<double>(64, 1));
  for (const char* mesh : {"", "data=2"}) {
    world.reset();
    auto f = compile(world.mesh(mesh), [](Tensor x) {
      const Scanned out = scan(
          [&](const auto& carry, const auto&) {
            const Tensor masked = dropout(x, 0.5);
            return Scanned{{carry[0] + sum(masked)}, {masked}};
          },
          {Tensor(sum(x) * 0)}, {}, {.length = 3});
      return std::pair(out.ys[0], grad(out.carry[0], {x})[0]);
    });
    const Future future = f(ones);
    const auto outputs = doubles(future.value(0).read()), gradient = doubles(future.value(1).read());
    const std::vector<double> first(outputs.begin(), outputs.begin() + 64),
        second(outputs.begin() + 64, outputs.begin() + 128);
    EXPECT_NE(first, second);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(gradient[i], outputs[i] + outputs[64 + i] + outputs[128 + i]);
  }
}

TEST(Scan, ModulesCanBeTrainedInAScan) {
  struct Net : nn::Module {
    Net() : Module(DType::f64) {}
    nn::Linear fc{*this, "fc", 3, 3};
  };
  auto losses = [](bool scanned, FunctionOptions options = {}) {
    World world;
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    auto step = compile(
        world.mesh(),
        [&](Tensor h, Tensor x) {
          if (scanned) {
            h = scan([&](const auto& c, const auto& r) { return Scanned{{tanh(net.fc(c[0]) + r[0])}}; }, {h}, {x})
                    .carry[0];
          } else {
            for (std::int64_t t = 0; t < x.size(0); ++t)
              h = tanh(net.fc(h) + reshape(slice(x, {t, 0, 0}, {1, 2, 3}), {2, 3}));
          }
          const Tensor loss = sum(h * h);
          sgd.step(grad(loss, net.parameters()));
          return loss;
        },
        std::move(options));
    std::vector<double> out;
    for (int i = 0; i < 5; ++i) out.push_back(step(random_doubles({2, 3}, 1), random_doubles({4, 2, 3}, 2)).item());
    return out;
  };
  const auto scan_losses = losses(true), loop_losses = losses(false);
  for (std::size_t i = 0; i < scan_losses.size(); ++i)
    EXPECT_NEAR(scan_losses[i], loop_losses[i], 1e-12 * std::abs(loop_losses[i]));
  EXPECT_LT(scan_losses.back(), scan_losses.front());
  EXPECT_EQ(losses(true, {.remat = {"fc"}}), scan_losses);
}

TEST(Scan, MismatchesAreErrors) {
  World world;
  Interactive scope(world.mesh());
  const Tensor x = random_doubles({4, 2}, 1), y = random_doubles({3, 2}, 2), c = random_doubles({2}, 3);
  const auto constant_body = [](Scanned result) { return [result](const auto&, const auto&) { return result; }; };
  const auto keep_carry = [](const auto& carry, const auto&) { return Scanned{carry}; };
  EXPECT_THAT(error_of([&] {
                scan(keep_carry, {c}, {x, y});
              }),
              HasSubstr("scan: all sequences must have the same number of rows, got 4 and 3"));
  EXPECT_THAT(error_of([&] { scan(keep_carry, {c}, {}); }),
              HasSubstr("ScanOptions::length must be at least 1, got -1"));
  EXPECT_THAT(error_of([&] { scan(keep_carry, {c}, {x}, {.length = 5}); }),
              HasSubstr("the length is 5, but the sequences have 4 rows"));
  EXPECT_THAT(error_of([&] { scan(keep_carry, {c}, {Tensor(1)}); }),
              HasSubstr("its first dimension must be the number of trips"));
  EXPECT_THAT(error_of([&] { scan(constant_body({{}}), {c}, {x}); }),
              HasSubstr("scan: the body must return as many carries as init has: expected 1, got 0"));
  EXPECT_THAT(error_of([&] { scan([](const auto& k, const auto&) { return Scanned{{sum(k[0])}}; }, {c}, {x}); }),
              HasSubstr("carry 0 is initially f64[2], but the body returns f64[]"));
  const Parameter w("w", {DType::f64, {2}}, constant_init(1));
  optim::SGD sgd({w}, {});
  EXPECT_THAT(error_of([&] {
                scan(
                    [&](const auto& carry, const auto& rows) {
                      sgd.step({rows[0]});
                      return Scanned{carry};
                    },
                    {c}, {x});
              }),
              HasSubstr("the body updates a variable; pass its value as a carry"));
  Tensor leaked;
  scan([&](const auto& carry, const auto& rows) { return leaked = carry[0] * rows[0], Scanned{carry}; }, {c}, {x});
  EXPECT_THAT(error_of([&] { (void)(leaked + 1); }), HasSubstr("is used outside of the program"));
  EXPECT_THAT(error_of([&] {
                compile(world.mesh(), [&](Tensor v) {
                  scan([&](const auto& carry, const auto&) { return leaked = carry[0] + 1, Scanned{carry}; }, {v}, {},
                       {.length = 2});
                  return leaked * 2;
                })(random_doubles({2}, 1));
              }),
              HasSubstr("belongs to another trace"));
}

}  // namespace
}  // namespace karez
