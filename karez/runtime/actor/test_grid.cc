// Builds the plan of the grid: an input, a chain of all_reduces and a fetch on each device.
#include "karez/runtime/actor/test_grid.h"

#include <cmath>
#include <memory>

#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/runtime/actor/reduce.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {

Grid::Grid(int rows, int columns, int rounds, std::int64_t count, const std::string& algorithm, int workers)
    : rows(rows),
      columns(columns),
      rounds(rounds),
      count(count),
      s(rows * columns, "grid"),
      algorithm(algorithm) {
  std::vector<std::string> sequence;
  for (int round = 0; round < rounds; ++round) sequence.push_back(cat("round ", round));
  for (int r = 0; r < rows; ++r) {
    Communicator c{{}, 256, sequence};
    for (int k = 0; k < columns; ++k) c.members.push_back(s.plan.devices[DeviceId(r * columns + k)]);
    s.plan.communicators.push_back(c);
  }
  for (int k = 0; k < columns; ++k) {
    Communicator c{{}, 256, sequence};
    for (int r = 0; r < rows; ++r) c.members.push_back(s.plan.devices[DeviceId(r * columns + k)]);
    s.plan.communicators.push_back(c);
  }
  for (int d = 0; d < rows * columns; ++d) add_device(d, d % workers);
}

void Grid::add_device(int d, int worker) {
  View view(DType::f32, {count});
  ActorId last = s.actor(cat("input.", d), worker, d, BodyKind::input);
  s.start(last);
  Actor& input = s.plan.actors[last];
  input.binding = "x";
  input.slices = {Attrs{{"begin", Ints{d * count}}, {"shape", Ints{rows * columns * count}}}};
  RegisterId from{static_cast<int>(s.plan.registers.size())};
  input.bound = {in_register(from, view)};
  for (int step = 0; step < 2 * rounds; ++step) {
    CommunicatorId group(step % 2 == 0 ? d / columns : rows + d % columns);
    ActorId all = s.actor(cat("all_reduce.", step, ".", d), worker, d, BodyKind::collective);
    from = s.edge(last, {all}, 2, view.bytes());
    RegisterId to{static_cast<int>(s.plan.registers.size())};
    Collective c{group,
                 CollectiveKind::all_reduce,
                 Reduce::sum,
                 {step / 2},
                 in_register(from, view),
                 in_register(to, view),
                 {},
                 {},
                 {},
                 cat("all_reduce at net.cc:", step),
                 collective_algorithm_from(algorithm)};
    comm::CollectiveSpec spec{plan::collective_kind_from("all_reduce"),
                              collective_algorithm_from(algorithm),
                              0,
                              step % 2 == 0 ? columns : rows,
                              256,
                              view,
                              view,
                              {},
                              {},
                              reduce_function(tensor::Reduce::sum, DType::f32)};
    if (std::int64_t staging = comm::staging_bytes(spec); staging > 0)
      c.staging = in_block(s.block(BlockKind::scratch, d, staging), View(DType::b8, {staging}));
    s.plan.actors[all].collective = c;
    last = all;
  }
  ActorId reader = s.actor(cat("see.", d), worker, d), fetch = s.actor(cat("fetch.", d), worker, d, BodyKind::fetch);
  const RegisterId sum = s.edge(last, {reader}, 1, view.bytes());
  from = s.edge(reader, {fetch}, 1, view.bytes());
  s.call(reader, "test.see", {in_register(sum, view)}, {in_register(from, view)});
  s.plan.actors[fetch].binding = cat("y", d);
  s.plan.actors[fetch].bound = {in_register(from, view)};
  s.done(fetch);
}

KernelRow Grid::kernel() {
  return test_row("see", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count()](const KernelArgs& args) {
      for (std::int64_t i = 0; i < n; ++i) {
        require(!std::isnan(test_data(args.in[0])[i]), "element ", i, " was never written");
        test_data(args.out[0])[i] = test_data(args.in[0])[i];
      }
    };
  });
}

float Grid::expected(std::int64_t element, const std::vector<float>& x) const {
  float sum = 0;
  for (int d = 0; d < rows * columns; ++d) sum += x[static_cast<std::size_t>(d * count + element)];
  for (int round = 1; round < rounds; ++round) sum *= static_cast<float>(rows * columns);
  return sum;
}

}  // namespace karez::runtime
