// Tests of LSTM and GRU, whose results are compared with plain loops that evaluate PyTorch's formulas, and of Adagrad
// and Lion.
#include "karez/api/recurrent.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/interactive.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

using Numbers = std::vector<double>;

Numbers numbers(const HostArray& array) { return {array.data<double>().begin(), array.data<double>().end()}; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

constexpr int steps = 5, batch = 2, in = 3, width = 4, layers = 2;

struct Weights {
  Numbers ih, hh, bih, bhh;
  int in = 0;
};
// Returns element `row` of the product of the matrix w and the vector x, plus b.
double product(const Numbers& w, const Numbers& b, int row, const double* x, int size) {
  double out = b[static_cast<std::size_t>(row)];
  for (int i = 0; i < size; ++i) out += w[static_cast<std::size_t>(row * size + i)] * x[i];
  return out;
}

// Runs one layer over x [t, n, in], and returns the states after each step, [t, n, width]. h and c [n, width] hold the
// initial states, and then the last ones.
Numbers layer(bool lstm, const Weights& w, const Numbers& x, Numbers& h, Numbers& c) {
  Numbers out;
  for (int t = 0; t < steps; ++t) {
    for (int n = 0; n < batch; ++n) {
      const double* row = &x[static_cast<std::size_t>((t * batch + n) * w.in)];
      const Numbers old_state(h.begin() + n * width, h.begin() + (n + 1) * width);
      for (int j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(n * width + j);
        const auto x_term = [&](int gate) { return product(w.ih, w.bih, gate * width + j, row, w.in); };
        const auto h_term = [&](int gate) { return product(w.hh, w.bhh, gate * width + j, old_state.data(), width); };
        if (lstm) {
          const double i = logistic(x_term(0) + h_term(0)), f = logistic(x_term(1) + h_term(1));
          const double g = std::tanh(x_term(2) + h_term(2)), o = logistic(x_term(3) + h_term(3));
          c[at] = f * c[at] + i * g;
          h[at] = o * std::tanh(c[at]);
        } else {
          const double r = logistic(x_term(0) + h_term(0)), z = logistic(x_term(1) + h_term(1));
          h[at] = (1 - z) * std::tanh(x_term(2) + r * h_term(2)) + z * old_state[static_cast<std::size_t>(j)];
        }
      }
    }
    out.insert(out.end(), h.begin(), h.end());
  }
  return out;
}

struct Reference {
  Numbers output, hidden, cell;
};
Reference reference(bool lstm, const World& world, const nn::Module& net, const Numbers& x, Numbers hidden,
                    Numbers cell) {
  Reference out{x, {}, {}};
  const int gates = lstm ? 4 : 3;
  for (int l = 0; l < layers; ++l) {
    const auto read = [&](const char* name, int size) {
      const std::string path = cat("net.", name, "_l", l);
      for (const auto& [parameter_path, parameter] : net.named_parameters())
        if (parameter_path == path) return numbers(world.read(parameter));
      return Numbers(static_cast<std::size_t>(size), 0);
    };
    Weights w{read("weight_ih", 0), read("weight_hh", 0), read("bias_ih", gates * width),
              read("bias_hh", gates * width), l == 0 ? in : width};
    const auto part = [&](const Numbers& all) {
      return Numbers(all.begin() + l * batch * width, all.begin() + (l + 1) * batch * width);
    };
    Numbers h = part(hidden), c = part(cell);
    out.output = layer(lstm, w, out.output, h, c);
    out.hidden.insert(out.hidden.end(), h.begin(), h.end());
    out.cell.insert(out.cell.end(), c.begin(), c.end());
  }
  return out;
}

void expect_near(const Numbers& result, const Numbers& expected, const std::string& label) {
  ASSERT_EQ(result.size(), expected.size()) << label;
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], expected[i], 1e-12) << label << " " << i;
}

template <class Recurrent> struct Net : nn::Module {
  explicit Net(nn::RecurrentShape shape) : Module(DType::f64), net(*this, "net", in, width, shape) {}
  Recurrent net;
};

TEST(Recurrent, LayersFollowTheFormulasOfPyTorch) {
  const HostArray x = random_doubles({steps, batch, in}, 1), h = random_doubles({layers, batch, width}, 2),
                  c = random_doubles({layers, batch, width}, 3);
  const Numbers zeros(layers * batch * width, 0.0);
  for (bool bias : {true, false}) {
    World world;
    Interactive interactive(world.mesh());
    Net<nn::LSTM> lstm({.layers = layers, .bias = bias});
    Net<nn::GRU> gru({.layers = layers, .bias = bias});
    const auto a = lstm.net(x, h, c), zero = lstm.net(x);
    Reference expected = reference(true, world, lstm, numbers(x), numbers(h), numbers(c));
    expect_near(numbers(a.output.read()), expected.output, "output");
    expect_near(numbers(a.hidden.read()), expected.hidden, "hidden");
    expect_near(numbers(a.cell.read()), expected.cell, "cell");
    expect_near(numbers(zero.cell.read()), reference(true, world, lstm, numbers(x), zeros, zeros).cell, "from zeros");
    const auto b = gru.net(x, h);
    expected = reference(false, world, gru, numbers(x), numbers(h), zeros);
    expect_near(numbers(b.output.read()), expected.output, "output");
    expect_near(numbers(b.hidden.read()), expected.hidden, "hidden");
    expect_near(numbers(gru.net(x).output.read()), reference(false, world, gru, numbers(x), zeros, zeros).output,
                "from zeros");
    EXPECT_EQ(lstm.parameters().size(), bias ? 8u : 4u);
    EXPECT_EQ(gru.parameter("net.weight_ih_l1").shape(), (Shape{3 * width, width}));
  }
}

TEST(Recurrent, BatchFirstTransposesInputAndOutput) {
  World world;
  Interactive interactive(world.mesh());
  Net<nn::GRU> net({.layers = layers});
  struct BatchFirst : nn::Module {
    explicit BatchFirst(std::vector<Parameter> w)
        : Module(DType::f64),
          net(*this, "net", in, width, {.layers = layers, .batch_first = true}) {
      net.weights = std::move(w);
    }
    nn::GRU net;
  } first(net.net.weights);
  const Tensor x = random_doubles({steps, batch, in}, 1);
  const auto a = net.net(x), b = first.net(transpose(x, {1, 0, 2}));
  expect_near(numbers(transpose(b.output, {1, 0, 2}).read()), numbers(a.output.read()), "output");
  expect_near(numbers(b.hidden.read()), numbers(a.hidden.read()), "hidden");
}

TEST(Recurrent, TrainingGivesEqualLossesOnEveryMeshAndWithMicroBatches) {
  auto losses = [](const char* mesh, int microbatches) {
    World world({.devices = 4});
    Net<nn::LSTM> net({.layers = layers, .batch_first = true});
    optim::Adam adam(net.parameters(), {.lr = 0.05});
    auto step = compile(world.mesh(mesh),
                        [&](Tensor x, Tensor y) {
                          const Tensor error = net.net(x).output - y;
                          const Tensor loss = sum(error * error);
                          adam.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.microbatches = microbatches});
    Numbers out;
    for (int s = 0; s < 8; ++s)
      out.push_back(step(random_doubles({4, steps, in}, 1), random_doubles({4, steps, width}, 2)).item());
    return out;
  };
  const Numbers single = losses("", 1);
  EXPECT_LT(single.back(), single.front());
  for (const auto& [mesh, microbatches] : {std::pair("data=2", 1), std::pair("data=2,model=2", 1), std::pair("", 2)}) {
    const Numbers mesh_losses = losses(mesh, microbatches);
    for (std::size_t s = 0; s < single.size(); ++s)
      EXPECT_NEAR(mesh_losses[s], single[s], 1e-10 * single[s]) << mesh << " " << microbatches << " step " << s;
  }
}

TEST(Recurrent, MismatchesAreErrors) {
  World world;
  Interactive interactive(world.mesh());
  Net<nn::LSTM> net({});
  const HostArray x = random_doubles({steps, batch, in}, 1), h = random_doubles({2, batch, width}, 2);
  EXPECT_THAT(error_of([&] {
                net.net(random_doubles({steps, in}, 1));
              }),
              HasSubstr("LSTM 'net': the input must have shape [t, n, in], got f64[5, 3]"));
  EXPECT_THAT(error_of([&] {
                net.net(random_doubles({steps, batch, 2}, 1));
              }),
              HasSubstr("LSTM 'net': expects 3 input features, got 2"));
  EXPECT_THAT(error_of([&] { net.net(x, h, h); }),
              HasSubstr("an initial state must have shape [1, 2, 4], got f64[2, 2, 4]"));
  EXPECT_THAT(error_of([] { Net<nn::GRU> bad({.layers = 0}); }),
              HasSubstr("GRU 'net': in, width and layers must be at least 1, got 3, 4 and 0"));
}

TEST(Optimisers, AdagradAndLionFollowTheirFormulas) {
  const Shape shape = {3, 4};
  for (const char* mesh : {"", "data=2"}) {
    World world({.devices = 2});
    const Parameter a("a", {DType::f64, shape}, uniform_init(1)), l("l", {DType::f64, shape}, uniform_init(1));
    optim::Adagrad adagrad({a}, {.lr = 0.1, .lr_decay = 0.5, .weight_decay = 0.02, .initial = 0.3});
    optim::Lion lion({l}, {.lr = 0.1, .weight_decay = 0.2});
    auto step = compile(world.mesh(mesh), [&](Tensor g) {
      adagrad.step({g});
      lion.step({g});
    });
    step.compile({{DType::f64, shape}});
    auto read = compile(world.mesh(mesh), [&] { return std::pair(a + 0, l + 0); });
    const Future first = read();
    Numbers w = numbers(first.value(0).read()), v = numbers(first.value(1).read()), s(12, 0.3), m(12, 0.0);
    for (int t = 0; t < 4; ++t) {
      HostArray g = random_doubles(shape, 10 + static_cast<std::uint64_t>(t));
      g.data<double>()[5] = 0;
      step(g).wait();
      for (std::size_t i = 0; i < 12; ++i) {
        const double d = g.data<double>()[i], decayed = d + 0.02 * w[i];
        s[i] += decayed * decayed;
        w[i] -= 0.1 / (1 + 0.5 * t) * decayed / (std::sqrt(s[i]) + 1e-10);
        const double direction = 0.9 * m[i] + (1 - 0.9) * d;
        v[i] -= 0.1 * ((direction > 0 ? 1 : direction < 0 ? -1 : 0) + 0.2 * v[i]);
        m[i] = 0.99 * m[i] + (1 - 0.99) * d;
      }
      expect_near(numbers(world.read(a)), w, cat("Adagrad, step ", t, " on ", mesh));
      expect_near(numbers(world.read(l)), v, cat("Lion, step ", t, " on ", mesh));
      expect_near(numbers(world.read("lion.m.l")), m, "Lion's average");
    }
  }
  const Parameter p("p", {DType::f64, {2}}, constant_init(0));
  EXPECT_THAT(error_of([&] { optim::Adagrad({p}, {.lr_decay = -1}); }), HasSubstr("'adagrad': lr_decay is -1.0"));
  EXPECT_THAT(error_of([&] { optim::Lion({p}, {.beta2 = 1}); }),
              HasSubstr("'lion': beta2 is 1.0; it must be in [0, 1)"));
}

}  // namespace
}  // namespace karez
