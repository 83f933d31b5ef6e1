// Assigns streams to workers by the predicted time of compute actors and transfers.
#include "karez/passes/lowering/plan_streams.h"

#include <algorithm>

#include "karez/passes/lowering/device_workers.h"
#include "karez/passes/lowering/emit_collective.h"
#include "karez/passes/scheduling/launch_simulation.h"

namespace karez::passes {
namespace {

bool crosses_ranks(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Mesh &from = graph.mesh(node.inputs[0]), &to = graph.mesh(node.outputs[0]);
  auto is_on_other_rank = [&](DeviceName name) { return name.rank != from.devices[0].rank; };
  if (node.op->role == Role::transfer)
    return std::any_of(from.devices.begin(), from.devices.end(), is_on_other_rank) ||
           std::any_of(to.devices.begin(), to.devices.end(), is_on_other_rank);
  const std::vector<int> group = from.group(step_of(graph, id).axis, 0);
  return std::any_of(group.begin(), group.end(),
                     [&](int position) { return is_on_other_rank(from.devices[static_cast<std::size_t>(position)]); });
}

// Predicts the seconds for which each own device is busy in a launch.
std::vector<double> seconds_by_device(const Compilation& c, std::size_t devices) {
  std::vector<double> seconds(devices, 0.0);
  for (const LocalSegment& local : c.local.segments) {
    if (local.device < 0) continue;
    const Segment& segment = c.segmentation.segments[local.segment];
    seconds[static_cast<std::size_t>(local.device)] +=
        c.graph.node(segment.nodes[0]).acts * seconds_of(c.graph, segment, c.options.costs);
  }
  return seconds;
}

// True if transfers between ranks justify a separate worker, which continues transfers while acts run, but must be
// woken for each transfer.
bool transfers_need_worker(const Compilation& c) {
  constexpr double min_mean_seconds = 2e-4;  // the time of ten wake-ups
  double seconds = 0;
  int transfers = 0;
  for (const Segment& segment : c.segmentation.segments) {
    if (segment.stream != StreamKind::comm || !crosses_ranks(c.graph, segment.nodes[0])) continue;
    seconds += seconds_of(c.graph, segment, c.options.costs);
    ++transfers;
  }
  return seconds > min_mean_seconds * transfers;
}

}  // namespace

void add_devices_and_streams(const Compilation& c, const std::vector<DeviceName>& own_devices, Plan& plan) {
  const int workers = std::max(1, c.options.workers);
  const int transfer_worker = std::min(workers, static_cast<int>(own_devices.size()));
  const bool has_transfer_worker = transfers_need_worker(c);
  const std::vector<int> worker_of = device_workers(seconds_by_device(c, own_devices.size()), workers);
  for (std::size_t d = 0; d < own_devices.size(); ++d) {
    plan.devices.push_back({own_devices[d].rank, own_devices[d].device, "cpu"});
    plan.streams.push_back({DeviceId(d), StreamKind::compute, worker_of[d]});
    plan.streams.push_back({DeviceId(d), StreamKind::comm, has_transfer_worker ? transfer_worker : worker_of[d]});
  }
  plan.streams.push_back({DeviceId(0), StreamKind::host, 0});
}

StreamId stream_of(const Plan& plan, int device, StreamKind kind) {
  return kind == StreamKind::host ? StreamId(plan.streams.size() - 1)
                                  : StreamId(device * 2 + (kind == StreamKind::comm ? 1 : 0));
}

}  // namespace karez::passes
