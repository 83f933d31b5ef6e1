// Creates the runs of collectives and their sequences.
#include "karez/runtime/load/collective_preparation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "karez/runtime/load/block_memory.h"
#include "karez/runtime/load/links.h"

namespace karez::runtime {

void prepare_collective(LoadedPlan& loaded, ActorState& a) {
  const Collective& c = *a.actor->collective;
  comm::CollectiveSpec spec = checked_spec(loaded.plan, *a.actor);
  comm::Endpoint& endpoint = loaded.hubs[c.communicator]->endpoint(spec.member);
  a.collective = std::make_unique<comm::CollectiveRun>(std::move(spec), endpoint);
  locate(loaded, a, c.in, &a.collective_in);
  locate(loaded, a, c.out, &a.collective_out);
  if (c.staging) locate(loaded, a, *c.staging, &a.staging);
}

void make_sequences(LoadedPlan& loaded) {
  std::map<std::pair<CommunicatorId, DeviceId>, SequenceState*> known;
  for (ActorId i : loaded.plan.actors.ids()) {
    if (!loaded.plan.actors[i].collective) continue;
    ActorState& a = loaded.state(i);
    const Collective& c = *a.actor->collective;
    WorkerPlan& worker_plan = *loaded.worker_plan_of[i];
    SequenceState*& sequence = known[{c.communicator, loaded.plan.stream(a.actor->stream).device}];
    if (sequence == nullptr) {
      sequence = worker_plan.sequences.emplace_back(std::make_unique<SequenceState>()).get();
      sequence->position = &loaded.collective_sequence.position(a.id);
      sequence->by_position.resize(sequence->position->order.size());
      sequence->endpoint = &loaded.hubs[c.communicator]->endpoint(a.collective->spec().member);
      sequence->arrival.kind = Mail::Kind::arrival;
      sequence->arrival.worker_plan = &worker_plan;
      sequence->arrival.local_index = static_cast<int>(worker_plan.sequences.size()) - 1;
      // A collective acknowledges its notifier whenever it polls, so a second notification may arrive before the
      // worker has taken the mail of the first. The flag prevents the same mail from being posted twice.
      sequence->endpoint->set_wake([box = loaded.boxes[static_cast<std::size_t>(worker_plan.worker)], sequence] {
        if (!sequence->arrival_posted.exchange(true, std::memory_order_acq_rel)) box->post(&sequence->arrival);
      });
    }
    auto at = std::find_if(worker_plan.sequences.begin(), worker_plan.sequences.end(),
                           [&](const auto& s) { return s.get() == sequence; });
    require(at != worker_plan.sequences.end(), "actor '", a.actor->name, "': all collectives of communicator ",
            c.communicator, " on a device must run on the same worker");
    a.sequence = static_cast<int>(at - worker_plan.sequences.begin());
    for (int turn : c.turns) sequence->by_position[static_cast<std::size_t>(turn)] = &a;
    worker_plan.sent_bytes[c.kind];
  }
}

}  // namespace karez::runtime
