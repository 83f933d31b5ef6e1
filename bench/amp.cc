// What does mixed precision gain? Measures a product of 1024 x 1024 matrices as a compiled function, and training steps
// of an MLP and of the character transformer, in f32, bf16 and f16.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/models.h"
#include "bench/timing.h"

namespace {

using namespace karez;

using bench::numbers;
using bench::seconds_per_run;

struct WideMlp : nn::Module {
  nn::Linear fc1{*this, "fc1", 1024, 1024}, fc2{*this, "fc2", 1024, 1024}, fc3{*this, "fc3", 1024, 16};
  Tensor operator()(Tensor x) { return fc3(relu(fc2(relu(fc1(x))))); }
};

// Prints the fastest of several alternating runs of each variant.
void print_timings(const char* name, std::vector<std::pair<std::string, std::function<void()>>> variants, int times) {
  std::vector<double> fastest(variants.size(), HUGE_VAL);
  for (int round = 0; round < 5; ++round)
    for (std::size_t i = 0; i < variants.size(); ++i)
      fastest[i] = std::min(fastest[i], seconds_per_run(variants[i].second, times));
  for (std::size_t i = 0; i < variants.size(); ++i)
    std::printf("%-28s %-5s %8.2f ms  %.2f of f32\n", name, variants[i].first.c_str(), fastest[i] * 1e3,
                fastest[i] / fastest[0]);
}

}  // namespace

int main() {
  World world({.team = 2});
  const HostArray a = numbers({1024, 1024}), b = numbers({1024, 1024});
  std::vector<std::pair<std::string, std::function<void()>>> products, steps;
  for (const char* amp : {"", "bf16", "f16"}) {
    const std::string name = *amp == 0 ? "f32" : amp;
    auto product = compile(world.mesh(), [](Tensor x, Tensor y) { return sum(matmul(x, y)); },
                           {.amp = amp, .name = "product_" + name});
    const Array x = compile(world.mesh(), [](Tensor v) { return v * 1.0; })(a).value(),
                y = compile(world.mesh(), [](Tensor v) { return v * 1.0; })(b).value();
    products.emplace_back(name, [product, x, y] { product(x, y).wait(); });
  }
  print_timings("matmul of 1024 cubed, summed", products, 10);

  HostArray labels(TensorType{DType::i32, {512}});
  for (std::size_t i = 0; i < 512; ++i) labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 16);
  const HostArray batch = numbers({512, 1024});
  std::vector<std::shared_ptr<WideMlp>> nets;
  for (const char* amp : {"", "bf16", "f16"}) {
    auto net = nets.emplace_back(std::make_shared<WideMlp>());
    auto sgd = std::make_shared<optim::SGD>(net->parameters(), optim::SGDOptions{.lr = 1e-2});
    auto step = compile(world.mesh(),
                        [net, sgd](Tensor x, Tensor y) {
                          Tensor loss = cross_entropy((*net)(x), y);
                          sgd->step(grad(loss, net->parameters()));
                          return loss;
                        },
                        {.amp = amp});
    steps.emplace_back(*amp == 0 ? "f32" : amp, [step, batch, labels] { step(batch, labels).wait(); });
    step.compile({{DType::f32, {512, 1024}}, {DType::i32, {512}}});
    std::printf("step %s: %s\n", amp,
                step.summary()
                    .substr(step.summary().find("mixed") == std::string::npos ? 0 : step.summary().find("mixed"), 70)
                    .c_str());
  }
  print_timings("MLP step, 512 x 1024", steps, 5);

  HostArray tokens(TensorType{DType::i32, {12, 64}}), next(TensorType{DType::i32, {12 * 64}});
  for (HostArray* array : {&tokens, &next})
    for (std::size_t i = 0; i < 12 * 64; ++i) array->data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % 65);
  std::vector<std::pair<std::string, std::function<void()>>> transformer_steps;
  for (const char* amp : {"", "bf16", "f16"}) {
    auto net = std::make_shared<bench::Gpt>();
    auto adam = std::make_shared<optim::Adam>(net->parameters(), optim::AdamOptions{});
    auto step = compile(world.mesh(),
                        [net, adam](Tensor x, Tensor y) {
                          Tensor loss = cross_entropy((*net)(x), y);
                          adam->step(grad(loss, net->parameters()));
                          return loss;
                        },
                        {.amp = amp});
    transformer_steps.emplace_back(*amp == 0 ? "f32" : amp, [step, tokens, next] { step(tokens, next).wait(); });
    transformer_steps.back().second();
  }
  print_timings("transformer step, 12 x 64", transformer_steps, 5);
}
