// The assignment of streams to workers.
#include "karez/plan/stream_assignment.h"

#include <algorithm>
#include <set>

namespace karez::plan {

ById<StreamId, int> assign_streams(const Plan& plan, int most) {
  std::set<int> computing;
  for (const Stream& stream : plan.streams)
    if (stream.name != "comm") computing.insert(stream.worker);
  const int last = computing.empty() ? 0 : *computing.rbegin();
  ById<StreamId, int> assigned;
  for (const Stream& stream : plan.streams)
    assigned.push_back(computing.count(stream.worker) > 0 ? stream.worker % most : std::min(last + 1, most));
  return assigned;
}

}  // namespace karez::plan
