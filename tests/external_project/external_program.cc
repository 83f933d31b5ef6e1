// An external program with its own op and kernel, which compares training on two devices with training on one.
// tests/install_test.py runs it.
#include <karez/karez.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

namespace {
using namespace karez;

// y = x * x * x, with shardings from its signature; its gradient consists of built-in ops.
OpDef cubed() {
  OpDef op;
  op.name = "cubed";
  op.doc = "Returns the cube of x.";
  op.inputs = 1;
  op.index = "i j -> i j";
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    const ValueId square = b.one("mul", {n.in(0), n.in(0)});
    const ValueId once = b.one("mul", {dy[0], square});
    return {b.one("add", {once, b.one("add", {once, once})})};
  };
  return op;
}

KernelRow cubed_kernel() {
  KernelRow row;
  row.name = "external.cubed";
  row.op = "cubed";
  row.supports = [](const CallSpec& c) {
    return c.in[0].dtype == DType::f64 && c.in[0].contiguous() && c.out[0].contiguous();
  };
  row.prepare = [](const CallSpec& c) -> PreparedKernel {
    return [count = c.out[0].count()](const KernelArgs& args) {
      const auto* x = reinterpret_cast<const double*>(args.in[0]);
      auto* y = reinterpret_cast<double*>(args.out[0]);
      for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i] * x[i];
    };
  };
  return row;
}

struct Net : nn::Module {
  Net() : Module("", DType::f64) {}
  nn::Linear first{*this, "first", 4, 16};
  nn::Linear second{*this, "second", 16, 1};
  Tensor operator()(const Tensor& x) { return second(apply("cubed", {tanh(first(x))})); }
};

// Returns the losses of 30 steps; the target is the sum of the squares of each row.
std::vector<double> train(std::string_view mesh) {
  World world({.devices = 2, .ops = {cubed()}, .kernels = {cubed_kernel()}});
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 0.02});
  auto step = compile(world.mesh(mesh), [&](Tensor x, Tensor y) {
    Tensor off = net(x) - y;
    Tensor loss = mean(off * off);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  HostArray x(TensorType{DType::f64, {32, 4}}), y(TensorType{DType::f64, {32, 1}});
  for (std::size_t row = 0; row < 32; ++row)
    for (std::size_t i = 0; i < 4; ++i) {
      const double value = std::sin(static_cast<double>(4 * row + i));
      x.data<double>()[4 * row + i] = value;
      y.data<double>()[row] = (i == 0 ? 0 : y.data<double>()[row]) + value * value;
    }
  std::vector<double> losses;
  for (int i = 0; i < 30; ++i) losses.push_back(step(x, y).item());
  return losses;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count > 1 && std::string_view(words[1]) == "taken") {  // an op name that exists
      OpDef op = cubed();
      op.name = "matmul";
      World world({.ops = {op}});
    }
    if (count > 1 && std::string_view(words[1]) == "label") {  // an invalid label
      World world({.devices = 2});
      auto loss =
          compile(world.mesh("data=2"), [](Tensor logits, Tensor labels) { return cross_entropy(logits, labels); });
      std::printf(
          "loss %f\n",
          loss(HostArray(TensorType{DType::f32, {4, 3}}), HostArray::of<std::int64_t>({4}, {0, 1, 2, 7})).item());
    }
    const auto mesh_losses = train("data=2"), device_losses = train("");
    double difference = 0;
    for (std::size_t i = 0; i < device_losses.size(); ++i)
      difference = std::max(difference, std::abs(mesh_losses[i] / device_losses[i] - 1));
    std::printf("loss from %.6f to %.6f, largest difference %.1e\n", mesh_losses.front(), mesh_losses.back(),
                difference);
    return mesh_losses.back() < 0.5 * mesh_losses.front() && difference < 1e-10 ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return exit_code(error.kind);
  }
}
