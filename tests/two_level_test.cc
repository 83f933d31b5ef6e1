// Tests a mesh with an axis for hosts and one for the devices of a host. A sum over both axes is first reduced within
// each host, so that few bytes are sent between hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "karez/karez.h"

namespace karez {
namespace {

constexpr std::int64_t width = 32, batch = 1024;

struct TrainingResult {
  std::vector<double> losses;
  std::multiset<std::string> collectives;  // of device 0, without scalars: "all_reduce with 2"
};

TrainingResult train(const std::string& mesh, const CostTable& costs) {
  World world({.devices = 4, .seed = 3, .costs = costs});
  Parameter w("w", {DType::f64, {width, width}}, normal_init(0.1));
  optim::SGD sgd({w}, {.lr = 0.1});
  FunctionOptions options;
  if (!mesh.empty()) options.rules = {{"w", P(nullptr, nullptr)}};
  auto step = compile(
      world.mesh(mesh),
      [&](Tensor x) {
        Tensor y = matmul(mesh.empty() ? x : with_layout(x, {"host+data"}), w);
        Tensor loss = mean(y * y);
        sgd.step(grad(loss, {w}));
        return loss;
      },
      options);
  TrainingResult out;
  HostArray x(TensorType{DType::f64, {batch, width}});
  for (std::int64_t i = 0; i < batch * width; ++i)
    x.data<double>()[static_cast<std::size_t>(i)] = static_cast<double>(i % 17) / 17 - 0.4;
  for (int s = 0; s < 5; ++s) out.losses.push_back(step(x).item());
  const plan::Plan& plan = step.plan();
  for (const auto& actor : plan.actors) {
    if (!actor.collective || plan.devices[plan.streams[actor.stream].device].device != 0 ||
        actor.collective->in.view.bytes() <= 64)
      continue;
    const auto& members = plan.communicators[actor.collective->communicator].members;
    std::string member_list;
    for (const auto& member : members)
      if (member.device != 0) member_list += " " + std::to_string(member.device);
    out.collectives.insert(std::string(name_of(actor.collective->kind)) + " with" + member_list);
  }
  return out;
}

TEST(TwoLevels, ASumOverHostsAndTheirDevicesIsReducedWithinHostsFirst) {
  CostTable costs;
  costs.axis_links = {{"host", {3e-5, 1e-8}}, {"data", {1e-6, 1e-10}}};
  const TrainingResult single_device = train("", CostTable{}), two_level = train("host=2,data=2", costs);
  // Only half of the bytes are sent between the hosts, in one all_reduce.
  EXPECT_THAT(two_level.collectives,
              ::testing::ElementsAre("all_gather with 1", "all_reduce with 2", "reduce_scatter with 1"));
  for (std::size_t s = 0; s < single_device.losses.size(); ++s)
    EXPECT_NEAR(two_level.losses[s], single_device.losses[s], 1e-10 * single_device.losses[s]);
  EXPECT_LT(single_device.losses.back(), single_device.losses.front());
}

}  // namespace
}  // namespace karez
