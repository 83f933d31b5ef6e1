// A page put together: prices, a launch in virtual time, tables.
#include "page/page.h"

#include "page/drawing.h"
#include "page/predict.h"
#include "page/sections.h"

namespace karez::page {

constexpr std::size_t most_held = 2000;  // of a device, or browsers grow slow

Page page_of(const Plan& plan, const CostTable& costs) {
  const Predictor predictor(costs);
  ById<ActorId, double> seconds;
  for (ActorId a : plan.actors.ids()) seconds.push_back(predictor.act(plan, a));
  SimulationOptions options;
  options.duration = [&](ActorId actor, std::int64_t) { return seconds[actor]; };
  const Simulation run = simulate(plan, options);
  Page page;
  page.name = plan.name;
  const std::string head = summary(plan);
  page.head = head.substr(0, head.find('\n', head.find('\n') + 1) + 1);
  page.seconds = run.makespan;
  for (const Transfer& transfer : plan.transfers) page.crossing += transfer.bytes;
  for (DeviceId d : plan.devices.ids()) page.names.push_back(device_text(plan, d));
  page.sections = sections_of(plan, predictor, seconds);
  page.actors = actors_of(plan, seconds);
  page.lanes = lanes_of(plan, run);
  page.memory = memory_of(plan, run, most_held);
  return page;
}

}  // namespace karez::page
