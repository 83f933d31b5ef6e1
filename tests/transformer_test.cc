// Tests that a transformer has the same losses on every mesh (in f64 within 1e-10), and that a rerun gives the same
// bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "bench/models.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr bench::GptShape small = {.layers = 2, .width = 16, .heads = 4, .length = 6, .vocabulary = 11};

// Returns the losses of ten steps on the same 5 sequences, a batch that is uneven on every mesh.
std::vector<double> losses(const std::string& mesh, DType dtype, const std::vector<LayoutRule>& rules = {},
                           int microbatches = 1, const std::vector<PlacementRule>& placements = {}) {
  Mesh shape = Mesh::parse(mesh);
  World world({.devices = shape.size(), .seed = 3});
  bench::Gpt net(small, dtype);
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(shape.axes),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = rules, .placements = placements, .microbatches = microbatches});
  std::mt19937 random(9);
  HostArray x(TensorType{DType::i32, {5, small.length}}), y(TensorType{DType::i32, {5 * small.length}});
  for (auto* array : {&x, &y})
    for (std::int32_t& value : array->data<std::int32_t>()) value = static_cast<std::int32_t>(random() % 11);
  std::vector<double> result;
  for (int s = 0; s < 10; ++s) result.push_back(step(x, y).item());
  return result;
}

double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return largest;
}

// The usual tensor parallelism: heads and the wide layer are split by rows, the layers after them by columns.
const std::vector<LayoutRule> by_rule = {
    {"block*.query.weight", P("model")},        {"block*.key.weight", P("model")},
    {"block*.value.weight", P("model")},        {"block*.up.weight", P("model")},
    {"block*.out.weight", P(nullptr, "model")}, {"block*.down.weight", P(nullptr, "model")}};

TEST(Transformer, TrainingInF64IsEqualOnEveryMeshWithin1e10) {
  auto single_device = losses("", DType::f64);
  EXPECT_LT(single_device.back(), single_device.front());
  std::vector<const char*> meshes = {"data=2,model=2", "data=3"};
  if (std::getenv("KAREZ_ALL") != nullptr) meshes.insert(meshes.end(), {"data=4", "model=4"});
  for (const char* mesh : meshes) EXPECT_LE(max_difference(single_device, losses(mesh, DType::f64)), 1e-10) << mesh;
  for (const char* mesh : {"model=4", "data=2,model=2"})
    EXPECT_LE(max_difference(single_device, losses(mesh, DType::f64, by_rule)), 1e-10) << mesh << " by rule";
}

TEST(Transformer, TrainingInF32StaysCloseOnEveryMeshAndARerunGivesTheSameBits) {
  auto single_device = losses("", DType::f32);
  std::vector<const char*> meshes = {"data=2,model=2", "data=3"};
  if (std::getenv("KAREZ_ALL") != nullptr) meshes.push_back("data=4");
  for (const char* mesh : meshes) {
    auto distributed = losses(mesh, DType::f32);
    EXPECT_LE(max_difference(single_device, distributed), 1e-4) << mesh;
    EXPECT_EQ(distributed, losses(mesh, DType::f32)) << mesh;
  }
}

// Heads are split and joined by windows, which the backward pass reads much later. The values of these windows come
// from the other stage and must stay in memory until then.
TEST(Transformer, TheModelTrainsInStagesAndMicroBatches) {
  auto single_device = losses("", DType::f64);
  const std::vector<PlacementRule> stages = {{"block0", 0}, {"block1", 1}};
  EXPECT_LE(max_difference(single_device, losses("stage=2", DType::f64, {}, 1, stages)), 1e-10);
  EXPECT_LE(max_difference(single_device, losses("stage=2", DType::f64, {}, 5, stages)), 1e-10);
  EXPECT_LE(max_difference(single_device, losses("stage=2,data=2", DType::f64, {}, 5, stages)), 1e-10);
}

}  // namespace
}  // namespace karez::tests
