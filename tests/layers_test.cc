// Tests of composed layers, functions and optimisers against loops over numbers, on one device and on meshes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/expect_function.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

// ---- statistics

TEST(Statistics, ResultsMatchLoops) {
  const HostArray x = random_array({6, 5}, 1);
  const Numbers n = numbers_of(x);
  for (std::int64_t correction : {0, 1}) {
    Numbers var, root;
    for (std::size_t r = 0; r < 6; ++r) {
      double mean = 0, squares = 0;
      for (std::size_t c = 0; c < 5; ++c) mean += n[r * 5 + c] / 5;
      for (std::size_t c = 0; c < 5; ++c) squares += (n[r * 5 + c] - mean) * (n[r * 5 + c] - mean);
      var.push_back(squares / static_cast<double>(5 - correction));
      root.push_back(std::sqrt(var.back()));
    }
    expect_function(
        "var", [&](auto in) { return karez::var(in[0], {-1}, false, correction); }, {x}, var);
    expect_function(
        "stddev", [&](auto in) { return stddev(in[0], {1}, true, correction); }, {x}, root);
  }
  for (double p : {0., 1., 2., 3., HUGE_VAL}) {
    Numbers want;
    for (std::size_t c = 0; c < 5; ++c) {
      double sum = 0, most = 0;
      for (std::size_t r = 0; r < 6; ++r)
        sum += std::pow(std::abs(n[r * 5 + c]), p), most = std::max(most, std::abs(n[r * 5 + c]));
      want.push_back(std::isinf(p) ? most : p == 0 ? 6 : std::pow(sum, 1 / p));
    }
    if (p == 0) want = Numbers(5, 6.0);
    expect_function(
        cat("norm ", p), [&](auto in) { return norm(in[0], p, {0}); }, {x}, want);
  }
  expect_near(run("",
                  [](auto in) {
                    return std::vector{norm(in[0], 2), grad(norm(in[0], 2), in)[0]};
                  },
                  {array({3}, {0, 0, 0})})[1],
              {0, 0, 0}, "the gradient of a norm at the origin");
  EXPECT_THAT(error_of([](auto in) { return std::vector{karez::var(in[0], {0})}; }, {array({1}, {2})}),
              HasSubstr("variance: 1 elements with correction 1"));
}

TEST(Statistics, StatisticsOfBoolsAndIndicesMatchLoops) {
  const HostArray x = array({3, 4}, {1, -2, 3, 0, /**/ -1, -1, -5, -5, /**/ 2, 2, 2, std::nan("")});
  for (const char* mesh : meshes) {
    auto got = run(mesh,
                   [](auto in) {
                     Tensor above = in[0] > 0;
                     return std::vector{
                         any(above, {1}), all(above, {1}),       any(above),
                         all(above),      arg_min(in[0]),        clip(in[0], -1, 2),
                         clip(in[0], 0),  any(above, {0}, true), arg_min(cast(in[0] * 1e18 * -1e18 > 0, DType::i32))};
                   },
                   {x});
    expect_near(got[0], {1, 0, 1}, "any");
    expect_near(got[1], {0, 0, 0}, "all");
    expect_near(got[2], {1}, "any of all");
    expect_near(got[3], {0}, "all of all");
    expect_near(got[4], {1, 2, 3}, "arg_min: the first of equals, NaN before all");
    expect_near(got[5], {1, -1, 2, 0, -1, -1, -1, -1, 2, 2, 2, std::nan("")}, "clip");
    expect_near(got[6], {1, 0, 3, 0, 0, 0, 0, 0, 2, 2, 2, std::nan("")}, "clip from below");
    expect_near(got[7], {1, 1, 1, 0}, "any, kept");
  }
  HostArray whole(TensorType{DType::i64, {3}});
  whole.data<std::int64_t>()[0] = 5, whole.data<std::int64_t>()[1] = std::numeric_limits<std::int64_t>::min(),
  whole.data<std::int64_t>()[2] = -7;
  expect_near(run("", [](auto in) { return std::vector{arg_min(in[0])}; }, {whole})[0], {1},
              "arg_min of the least integer");
  EXPECT_THAT(error_of([](auto in) { return std::vector{any(in[0])}; }, {x}),
              HasSubstr("any: takes bool, not f64[3, 4]"));
  EXPECT_THAT(error_of([](auto in) { return std::vector{clip(in[0], 2, 1)}; }, {x}),
              HasSubstr("the lower bound 2.0 is above the upper one, 1.0"));
}

TEST(Norms, ResultsMatchLoops) {
  const HostArray x = random_array({4, 3, 4}, 2), w = random_array({3, 4}, 3), b = random_array({3, 4}, 4),
                  row = random_array({4}, 5);
  const Numbers n = numbers_of(x), weight = numbers_of(w), bias = numbers_of(b), r = numbers_of(row);
  Numbers layer, rms;
  for (std::size_t i = 0; i < 4; ++i) {
    double mean = 0, squares = 0;
    for (std::size_t e = 0; e < 12; ++e) mean += n[i * 12 + e] / 12;
    for (std::size_t e = 0; e < 12; ++e) squares += (n[i * 12 + e] - mean) * (n[i * 12 + e] - mean) / 12;
    for (std::size_t e = 0; e < 12; ++e)
      layer.push_back((n[i * 12 + e] - mean) / std::sqrt(squares + 1e-5) * weight[e] + bias[e]);
  }
  for (std::size_t i = 0; i < 12; ++i) {
    double squares = 0;
    for (std::size_t e = 0; e < 4; ++e) squares += n[i * 4 + e] * n[i * 4 + e] / 4;
    for (std::size_t e = 0; e < 4; ++e)
      rms.push_back(n[i * 4 + e] / std::sqrt(squares + std::numeric_limits<double>::epsilon()) * r[e]);
  }
  expect_function(
      "layer_norm", [](auto in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b}, layer);
  expect_function(
      "rms_norm", [](auto in) { return rms_norm(in[0], in[1]); }, {x, row}, rms);
  EXPECT_THAT(error_of([](auto in) { return std::vector{rms_norm(in[0], in[1])}; }, {x, b}), HasSubstr("no error"));
  EXPECT_THAT(error_of([](auto in) { return std::vector{rms_norm(in[0], in[1])}; }, {row, b}),
              HasSubstr("rms_norm: f64[4] has no 2 last dimensions"));
  EXPECT_THAT(error_of([](auto in) { return std::vector{layer_norm(in[0], in[1], in[1])}; }, {x, random_array({3}, 1)}),
              HasSubstr("f64[3] does not match f64[4, 3, 4]"));
}

// ---- attention

struct Heads {
  std::size_t n = 2, h = 4, g = 4, t = 3, s = 3, d = 2, e = 2;
};

// seen(batch, head, query, key); added likewise.
Numbers attention(const Heads& z, const Numbers& q, const Numbers& k, const Numbers& v,
                  const std::function<bool(std::size_t, std::size_t)>& seen,
                  const std::function<double(std::size_t, std::size_t)>& added, double scale) {
  Numbers out;
  for (std::size_t n = 0; n < z.n; ++n)
    for (std::size_t h = 0; h < z.h; ++h)
      for (std::size_t t = 0; t < z.t; ++t) {
        const std::size_t g = h / (z.h / z.g);
        Numbers weight(z.s, 0.0);
        double total = 0;
        for (std::size_t s = 0; s < z.s; ++s) {
          if (!seen(t, s)) continue;
          double dot = 0;
          for (std::size_t d = 0; d < z.d; ++d)
            dot += q[((n * z.h + h) * z.t + t) * z.d + d] * k[((n * z.g + g) * z.s + s) * z.d + d];
          total += weight[s] = std::exp(dot * scale + added(t, s));
        }
        for (std::size_t e = 0; e < z.e; ++e) {
          double sum = 0;
          for (std::size_t s = 0; s < z.s; ++s)
            sum += total == 0 ? 0 : weight[s] / total * v[((n * z.g + g) * z.s + s) * z.e + e];
          out.push_back(sum);
        }
      }
  return out;
}

TEST(Attention, TheResultMatchesLoops) {
  const auto any_seen = [](std::size_t, std::size_t) { return true; };
  const auto past = [](std::size_t t, std::size_t s) { return s <= t; };
  const auto nothing = [](std::size_t, std::size_t) { return 0.0; };
  for (Heads z : {Heads{}, Heads{.h = 6, .g = 2}, Heads{.h = 4, .g = 1, .s = 5, .e = 3}}) {
    auto dims = [](auto... sizes) { return Shape{static_cast<std::int64_t>(sizes)...}; };
    const HostArray q = random_array(dims(z.n, z.h, z.t, z.d), 1), k = random_array(dims(z.n, z.g, z.s, z.d), 2),
                    v = random_array(dims(z.n, z.g, z.s, z.e), 3);
    const Numbers a = numbers_of(q), b = numbers_of(k), c = numbers_of(v);
    const double scale = 1 / std::sqrt(static_cast<double>(z.d));
    expect_function(
        "attention", [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2]); }, {q, k, v},
        attention(z, a, b, c, any_seen, nothing, scale));
    expect_function(
        "causal attention",
        [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .scale = 0.7}); },
        {q, k, v}, attention(z, a, b, c, past, nothing, 0.7));
    if (z.h == 6) continue;  // masks are equal for all heads
    const HostArray mask = random_array(dims(z.t, z.s), 9);
    const Numbers m = numbers_of(mask);
    expect_function(
        "attention with numbers added",
        [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2], in[3]); }, {q, k, v, mask},
        attention(
            z, a, b, c, any_seen, [&](std::size_t t, std::size_t s) { return m[t * z.s + s]; }, scale));
    // The second query has no visible key.
    const auto seen = [&](std::size_t t, std::size_t s) { return t != 1 && m[t * z.s + s] < 0.5; };
    expect_function(
        "masked attention",
        [&](auto in) {
          Tensor see = logical_and(full(mask.type().shape, 0.5, DType::f64) > stop_gradient(in[3]),
                                   not_equal(iota({3, 1}, 0), 1));
          return scaled_dot_product_attention(in[0], in[1], in[2], see) + 0 * sum(in[3]);
        },
        {q, k, v, mask}, attention(z, a, b, c, seen, nothing, scale));
  }
}

TEST(Attention, ShapesThatDoNotMatchAreRejected) {
  const HostArray q = random_array({2, 4, 3, 2}, 1), k = random_array({2, 3, 3, 2}, 2),
                  d = random_array({2, 4, 3, 4}, 3), flat = random_array({3, 2}, 4);
  auto refused = [](const HostArray& a, const HostArray& b, const HostArray& c) {
    return error_of([](auto in) { return std::vector{scaled_dot_product_attention(in[0], in[1], in[2])}; }, {a, b, c});
  };
  EXPECT_THAT(refused(q, k, k),
              HasSubstr("3 heads of keys do not divide 4 of queries: q f64[2, 4, 3, 2], k f64[2, 3, 3, 2]"));
  EXPECT_THAT(refused(q, d, d), HasSubstr("queries have 2 elements, keys have 4"));
  EXPECT_THAT(refused(q, q, k), HasSubstr("k and v may differ only in their last dimension"));
  EXPECT_THAT(refused(flat, flat, flat), HasSubstr("have equal ranks"));
  EXPECT_THAT(error_of(
                  [](auto in) {
                    return std::vector{scaled_dot_product_attention(in[0], in[0], in[0], cast(in[0] > 0, DType::i32))};
                  },
                  {q}),
              HasSubstr("the mask must be bool or f64, got i32"));
}

TEST(Rotary, PairsAreRotatedByTheirPosition) {
  const HostArray x = random_array({2, 3, 5, 6}, 6);
  const Numbers n = numbers_of(x);
  for (bool interleaved : {false, true}) {
    Numbers want(n.size());
    for (std::size_t row = 0; row < 6; ++row)
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t i = 0; i < 3; ++i) {
          const std::size_t base = (row * 5 + t) * 6, first = base + (interleaved ? 2 * i : i),
                            second = base + (interleaved ? 2 * i + 1 : i + 3);
          const auto turned =
              std::complex(n[first], n[second]) *
              std::polar(1.0, static_cast<double>(t + 7) * std::pow(100.0, -static_cast<double>(2 * i) / 6));
          want[first] = turned.real(), want[second] = turned.imag();
        }
    expect_function(
        "rotary", [&](auto in) { return rotary(in[0], {.base = 100, .first = 7, .interleaved = interleaved}); }, {x},
        want);
  }
  EXPECT_THAT(error_of([](auto in) { return std::vector{rotary(in[0])}; }, {random_array({2, 3}, 1)}),
              HasSubstr("with an even d, got f64[2, 3]"));
}

// ---- einsum

// Loops over all combinations of indices of all letters.
Numbers sum_of_products(const std::vector<std::string>& in, const std::string& out, const std::map<char, int>& sizes,
                        const std::vector<Numbers>& operands) {
  auto place = [&](const std::string& letters, const std::map<char, int>& at) {
    std::size_t index = 0;
    for (char c : letters) index = index * static_cast<std::size_t>(sizes.at(c)) + static_cast<std::size_t>(at.at(c));
    return index;
  };
  std::size_t count = 1;
  for (char c : out) count *= static_cast<std::size_t>(sizes.at(c));
  Numbers result(count, 0.0);
  std::map<char, int> at;
  for (auto [letter, size] : sizes) at[letter] = 0;
  for (bool more = true; more;) {
    double product = 1;
    for (std::size_t i = 0; i < in.size(); ++i) product *= operands[i][place(in[i], at)];
    result[place(out, at)] += product;
    more = false;
    for (auto& [letter, value] : at) {
      if (++value < sizes.at(letter)) {
        more = true;
        break;
      }
      value = 0;
    }
  }
  return result;
}

TEST(Einsum, TheResultMatchesTheSumOfProductsOverAllIndices) {
  struct Case {
    const char* subscripts;
    std::vector<std::string> in;
    std::string out;
  };
  const std::map<char, int> all = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 3}, {'Z', 2}};
  for (const Case& c : std::vector<Case>{{"ab,bc->ac", {"ab", "bc"}, "ac"},
                                         {"ab, bc", {"ab", "bc"}, "ac"},
                                         {"bacd,bace->bade", {"bacd", "bace"}, "bade"},
                                         {"ab->ba", {"ab"}, "ba"},
                                         {"abc->b", {"abc"}, "b"},
                                         {"abc->", {"abc"}, ""},
                                         {"ba", {"ba"}, "ab"},
                                         {"a,b->ba", {"a", "b"}, "ba"},
                                         {"ab,ab->ab", {"ab", "ab"}, "ab"},
                                         {"ab,ab->", {"ab", "ab"}, ""},
                                         {"abe,cb->ac", {"abe", "cb"}, "ac"},
                                         {"ab,bc,cd->da", {"ab", "bc", "cd"}, "da"},
                                         {"ab,cb,bZ->aZc", {"ab", "cb", "bZ"}, "aZc"},
                                         {"...a,...ab->...b", {"cda", "cdab"}, "cdb"},
                                         {"...a->a...", {"cda"}, "acd"},
                                         {"...ab,bc", {"dab", "bc"}, "dac"}}) {
    std::map<char, int> sizes;
    std::vector<HostArray> inputs;
    std::vector<Numbers> operands;
    for (const std::string& letters : c.in) {
      Shape shape;
      for (char letter : letters) sizes[letter] = all.at(letter), shape.push_back(all.at(letter));
      inputs.push_back(random_array(shape, static_cast<unsigned>(inputs.size() + 1)));
      operands.push_back(numbers_of(inputs.back()));
    }
    expect_function(
        c.subscripts,
        [&](auto in) {
          return einsum(c.subscripts, {in.begin(), in.end()});
        },
        inputs, sum_of_products(c.in, c.out, sizes, operands));
  }
}

TEST(Einsum, InvalidSubscriptsAreRejected) {
  const HostArray x = random_array({2, 3}, 1);
  auto refused = [&](const char* subscripts, int operands) {
    return error_of(
        [&](auto in) {
          return std::vector{einsum(subscripts, {in.begin(), in.end()})};
        },
        std::vector<HostArray>(static_cast<std::size_t>(operands), x));
  };
  EXPECT_THAT(refused("ab,bc->ac", 2), HasSubstr("einsum 'ab,bc->ac': 'b' has sizes 3 and 2"));
  EXPECT_THAT(refused("ab,bc->ac", 1), HasSubstr("2 operands in the subscripts, 1 given"));
  EXPECT_THAT(refused("abc->a", 1), HasSubstr("'abc' for f64[2, 3]"));
  EXPECT_THAT(refused("aa->a", 1), HasSubstr("'a' occurs twice in 'aa'; diagonals are not supported"));
  EXPECT_THAT(refused("a1->a", 1), HasSubstr("'1' is not a letter"));
  EXPECT_THAT(refused("ab->ac", 1), HasSubstr("'c' of the result is not in any operand"));
  EXPECT_THAT(refused("......ab->a", 1), HasSubstr("einsum '......ab->a'"));
  EXPECT_THAT(refused("ab->aab", 1), HasSubstr("'a' occurs twice in 'aab'"));
}

// ---- optimisers

TEST(Optimisers, RmspropAndAdamwMatchTheirFormulas) {
  const Shape shape = {4, 3};
  const Numbers first = drawn(12, 1);
  std::vector<Numbers> grads;
  for (unsigned s = 0; s < 4; ++s) grads.push_back(drawn(12, 10 + s));
  struct Weight : nn::Module {
    explicit Weight(Shape s) : Module(DType::f64), weight(make_parameter("weight", std::move(s), uniform_init(1))) {}
    Parameter weight;
  };
  auto trained = [&](const std::string& mesh, auto make) {
    World world({.devices = Mesh::parse(mesh).size()});
    Weight net(shape);
    auto optimiser = make(net.parameters());
    auto step = compile(world.mesh(mesh), [&](Tensor g) { optimiser.step({g}); });
    step.compile({{DType::f64, shape}});
    auto read = compile(world.mesh(mesh), [&] { return net.weight + 0; });
    std::vector<Numbers> weights{numbers_of(read().value().read())};
    for (const Numbers& g : grads) {
      step(array(shape, g)).wait();
      weights.push_back(numbers_of(world.read("weight")));
    }
    return weights;
  };
  for (const char* mesh : meshes) {
    for (bool centered : {false, true})
      for (double momentum : {0.0, 0.9}) {
        const auto got = trained(mesh, [&](auto parameters) {
          return optim::RMSprop(
              parameters, {.lr = 0.1, .alpha = 0.9, .weight_decay = 0.01, .momentum = momentum, .centered = centered});
        });
        Numbers w = got[0], v(12, 0.0), mean(12, 0.0), m(12, 0.0);
        for (std::size_t s = 0; s < grads.size(); ++s) {
          for (std::size_t i = 0; i < 12; ++i) {
            const double g = grads[s][i] + 0.01 * w[i];
            v[i] = 0.9 * v[i] + 0.1 * g * g;
            mean[i] = 0.9 * mean[i] + 0.1 * g;
            const double move = g / (std::sqrt(centered ? v[i] - mean[i] * mean[i] : v[i]) + 1e-8);
            m[i] = momentum * m[i] + move;
            w[i] -= 0.1 * (momentum > 0 ? m[i] : move);
          }
          expect_near(got[s + 1], w,
                      cat("RMSprop on '", mesh, "', centred ", centered, ", momentum ", momentum, ", step ", s), 1e-10);
        }
      }
    const auto got =
        trained(mesh, [](auto parameters) { return optim::AdamW(parameters, {.lr = 0.1, .weight_decay = 0.2}); });
    Numbers w = got[0], m(12, 0.0), v(12, 0.0);
    for (std::size_t s = 0; s < grads.size(); ++s) {
      for (std::size_t i = 0; i < 12; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * grads[s][i];
        v[i] = 0.999 * v[i] + 0.001 * grads[s][i] * grads[s][i];
        const double t = static_cast<double>(s + 1),
                     step = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
        w[i] -= 0.1 * (step + 0.2 * w[i]);
      }
      expect_near(got[s + 1], w, cat("AdamW on '", mesh, "', step ", s), 1e-10);
    }
  }
}

TEST(Optimisers, ClippingAndAverages) {
  const HostArray a = random_array({6}, 1), b = random_array({2, 3}, 2);
  double squares = 0;
  for (const HostArray* each : {&a, &b})
    for (double value : numbers_of(*each)) squares += value * value;
  for (const char* mesh : meshes)
    for (double most : {0.5, 100.0}) {
      auto got = run(mesh,
                     [&](auto in) {
                       auto clipped = optim::clip_by_global_norm(in, most);
                       return std::vector{clipped.norm, clipped.grads[0], clipped.grads[1]};
                     },
                     {a, b});
      expect_near(got[0], {std::sqrt(squares)}, "the norm");
      const double scale = std::min(1.0, most / (std::sqrt(squares) + 1e-6));
      for (std::size_t i = 0; i < 2; ++i) {
        Numbers want = numbers_of(i == 0 ? a : b);
        for (double& value : want) value *= scale;
        expect_near(got[i + 1], want, "a clipped gradient");
      }
    }
  World world({.devices = 2});
  struct Weight : nn::Module {
    Weight() : Module(DType::f64), weight(make_parameter("weight", {4}, constant_init(1))) {}
    Parameter weight;
  } net;
  optim::SGD sgd(net.parameters(), {.lr = 1});
  optim::EMA ema(net.parameters(), 0.75);
  auto step = compile(world.mesh("data=2"), [&](Tensor g) {
    sgd.step({g});
    ema.update();
  });
  Numbers w(4, 1.0), average;
  for (int s = 0; s < 4; ++s) {
    const Numbers g = drawn(4, static_cast<unsigned>(s));
    step(array({4}, g)).wait();
    for (std::size_t i = 0; i < 4; ++i) w[i] -= g[i];
    if (s == 0) average = w;
    for (std::size_t i = 0; s > 0 && i < 4; ++i) average[i] = 0.75 * average[i] + 0.25 * w[i];
    expect_near(numbers_of(world.read("ema.weight")), average, cat("the average after step ", s));
  }
}

// ---- modules

TEST(Initial, NormalNumbersAreNormalAndEqualOnEveryMesh) {
  struct Net : nn::Module {
    nn::Embedding table{*this, "table", 400, 50};
  };
  Numbers first;
  for (const char* mesh : meshes) {
    World world({.devices = Mesh::parse(mesh).size(), .seed = 3});
    Net net;
    auto f = compile(world.mesh(mesh), [&](Tensor i) { return net.table(i); });
    HostArray index(TensorType{DType::i64, {2}});
    index.data<std::int64_t>()[0] = 3, index.data<std::int64_t>()[1] = 399;
    const Numbers rows = numbers_of(f(index).value().read()), all = numbers_of(world.read("table.weight"));
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << mesh;
    EXPECT_EQ(rows, [&] {
      Numbers want(all.begin() + 150, all.begin() + 200);
      want.insert(want.end(), all.end() - 50, all.end());
      return want;
    }());
  }
  double mean = 0, squares = 0, fourth = 0, beyond = 0;
  for (double value : first)
    mean += value / 20000, squares += value * value / 20000, fourth += std::pow(value, 4) / 20000,
        beyond += std::abs(value) > 1.96;
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(squares, 1, 0.05);
  EXPECT_NEAR(fourth, 3, 0.3);
  EXPECT_NEAR(beyond / 20000, 0.05, 0.01);
}

// A modern decoder: rotary grouped attention, RMS norms, a gated layer.
struct Decoder : nn::Module {
  struct Layer : nn::Module {
    Layer(Module& parent, const std::string& name) : Module(parent, name) {}
    nn::RMSNorm norm1{*this, "norm1", {16}}, norm2{*this, "norm2", {16}};
    nn::MultiHeadAttention attention{
        *this, "attention", 16, 4, {.kv_heads = 2, .causal = true, .rotary = true, .bias = false}};
    nn::Linear gate{*this, "gate", 16, 24, false}, up{*this, "up", 16, 24, false}, down{*this, "down", 24, 16, false};
    Tensor operator()(Tensor x) {
      x = x + attention(norm1(x));
      Tensor y = norm2(x);
      return x + down(silu(gate(y)) * up(y));
    }
  };
  explicit Decoder(DType dtype) : Module(dtype) {}
  nn::Embedding tokens{*this, "tokens", 11, 16};
  Layer first{*this, "first"}, second{*this, "second"};
  nn::LayerNorm norm{*this, "norm", {16}};
  nn::Linear head{*this, "head", 16, 11};
  Tensor operator()(Tensor x) { return head(reshape(norm(second(first(tokens(x)))), {-1, 16})); }
};

Numbers losses(const std::string& mesh, const std::vector<LayoutRule>& rules = {}) {
  World world({.devices = Mesh::parse(mesh).size(), .seed = 3});
  Decoder net(DType::f64);
  optim::AdamW adam(net.parameters(), {.lr = 1e-2});
  optim::EMA ema(net.parameters(), 0.9);
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(optim::clip_by_global_norm(grad(loss, net.parameters()), 1).grads);
                        ema.update();
                        return loss;
                      },
                      {.rules = rules});
  std::mt19937 random(9);
  HostArray x(TensorType{DType::i32, {5, 6}}), y(TensorType{DType::i32, {30}});
  for (auto* tokens : {&x, &y})
    for (std::int32_t& value : tokens->data<std::int32_t>()) value = static_cast<std::int32_t>(random() % 11);
  Numbers result;
  for (int s = 0; s < 8; ++s) result.push_back(step(x, y).item());
  return result;
}

TEST(Decoder, TrainingGivesTheSameOnEveryMeshWithin1e10) {
  const Numbers one = losses("");
  EXPECT_LT(one.back(), 0.8 * one.front());
  auto expect_same = [&](const Numbers& other, const char* what) {
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(other[i], one[i], 1e-10 * one[i]) << what << ", step " << i;
  };
  for (const char* mesh : {"model=2", "data=3"}) expect_same(losses(mesh), mesh);
  if (std::getenv("KAREZ_ALL") != nullptr) expect_same(losses("data=4"), "data=4");
  const std::vector<LayoutRule> by_heads = {{"*.attention.{query,key,value}.weight", P("model", nullptr)},
                                            {"*.attention.out.weight", P(nullptr, "model")},
                                            {"*.{gate,up}.weight", P("model", nullptr)},
                                            {"*.down.weight", P(nullptr, "model")}};
  expect_same(losses("data=2,model=2", by_heads), "by heads");
}

}  // namespace
}  // namespace karez::tests
