// Tests that the bytes, messages and acts that a plan predicts equal those counted when it runs.
#include <gtest/gtest.h>

#include <random>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

struct Mlp : nn::Module {
  nn::Linear fc1{*this, "fc1", 20, 24}, fc2{*this, "fc2", 24, 10};
  nn::Dropout drop{*this, "drop", 0.5};
  Tensor operator()(Tensor x) { return fc2(drop(relu(fc1(x)))); }
};

// Returns the number of messages of one launch, computed from the plan. An act sends one `returned` per input and one
// `filled` per consumer; the session sends a `filled` per start register and a `returned` per done register.
std::int64_t messages_of(const Plan& plan) {
  std::int64_t count = 0;
  for (const Register& reg : plan.registers) count += 2 * static_cast<std::int64_t>(reg.consumers.size());
  return count;
}

class PlannedCounts : public ::testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(PlannedCounts, PlannedBytesAndMessagesEqualCountedBytesAndMessages) {
  auto [text, by_rule] = GetParam();
  Mesh shape = Mesh::parse(text);
  World world({.devices = shape.size()});
  Mlp net;
  optim::Adam adam(net.parameters(), {.lr = 1e-3});
  std::vector<LayoutRule> rules;
  if (by_rule) rules = {{"fc1.weight", P("model", nullptr)}, {"fc2.weight", P(nullptr, "model")}};
  auto step = compile(world.mesh(shape.axes),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = rules});
  std::mt19937 random(3);
  HostArray x(TensorType{DType::f32, {13, 20}}), y(TensorType{DType::i32, {13}});
  for (float& value : x.data<float>()) value = static_cast<float>(random() % 1000) / 500 - 1;
  for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 10);
  step(x, y).wait();  // also initialises variables
  Counters before = world.counters();
  constexpr int launches = 5;
  for (int i = 0; i < launches; ++i) step(x, y).wait();
  Counters after = world.counters();

  std::map<std::string, std::int64_t> planned, counted;
  for (const Transfer& transfer : step.plan().transfers)
    planned[std::string(name_of(transfer.kind))] += launches * transfer.bytes;
  for (const auto& [kind, bytes] : after.sent_bytes) {
    auto old = before.sent_bytes.find(kind);
    std::int64_t new_bytes = bytes - (old == before.sent_bytes.end() ? 0 : old->second);
    if (new_bytes != 0) counted[kind] = new_bytes;
  }
  std::erase_if(planned, [](const auto& entry) { return entry.second == 0; });
  EXPECT_EQ(planned, counted) << step.summary();
  EXPECT_EQ(after.messages - before.messages, launches * messages_of(step.plan()));
  EXPECT_EQ(after.launches - before.launches, launches);
  EXPECT_EQ(after.acts - before.acts, launches * static_cast<std::int64_t>(step.plan().actors.size()));
}

INSTANTIATE_TEST_SUITE_P(Meshes, PlannedCounts,
                         ::testing::Values(std::pair{"", false}, std::pair{"data=4", false},
                                           std::pair{"model=4", false}, std::pair{"model=3", true},
                                           std::pair{"data=2,model=2", false}, std::pair{"data=2,model=2", true}));

}  // namespace
}  // namespace karez::tests
