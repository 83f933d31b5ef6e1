// Assigns streams to worker threads.
#include "karez/plan/stream_assignment.h"

#include <algorithm>
#include <set>

namespace karez::plan {

ById<StreamId, int> assign_streams(const Plan& plan, int max_workers) {
  std::set<int> computing;
  for (const Stream& stream : plan.streams)
    if (stream.kind != StreamKind::comm) computing.insert(stream.worker);
  const int last = computing.empty() ? 0 : *computing.rbegin();
  ById<StreamId, int> assigned;
  for (const Stream& stream : plan.streams)
    assigned.push_back(computing.count(stream.worker) > 0 ? stream.worker % max_workers
                                                          : std::min(last + 1, max_workers));
  return assigned;
}

}  // namespace karez::plan
