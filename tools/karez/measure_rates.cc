// Measures three calls, each for a fifth of a second.
#include "tools/karez/measure_rates.h"

#include <vector>

#include "tools/karez/measure_kernels.h"

namespace karez::tools {
namespace {

constexpr double seconds = 0.2;

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(const Shape& shape) { return View(DType::f32, shape, channels_last(shape)); }

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, int team, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.attrs = std::move(attrs);
  call.in = std::move(in);
  call.out = std::move(out);
  call.team = team;
  return call;
}

}  // namespace

CostTable measure_rates(int team) {
  const double side = 512, images = 16, channels = 32, field = 28;
  CostTable out;
  const View square = f32({512, 512}), x = image({16, 32, 30, 30}), w = image({32, 32, 3, 3}),
             y = image({16, 32, 28, 28});
  const View mega = f32({8 << 20});
  const Attrs sum{{"expr", "x0 + x1"}};
  out.matmul_flops = 2 * side * side * side / seconds_of(call_of("matmul", {square, square}, {square}, team), seconds);
  out.conv_flops =
      2 * images * channels * channels * 9 * field * field / seconds_of(call_of("conv2d", {x, w}, {y}, team), seconds);
  out.memory_bytes = 3 * static_cast<double>(mega.bytes()) /
                     seconds_of(call_of("pointwise", {mega, mega}, {mega}, team, sum), seconds);
  return out;
}

}  // namespace karez::tools
