// Starts, advances and abandons collectives.
#include "karez/runtime/actor/collectives.h"

namespace karez::runtime {

bool begin_collective(WorkerPlan& worker_plan, ActorState& actor) {
  SequenceState& sequence = *worker_plan.sequences[static_cast<std::size_t>(actor.sequence)];
  sequence.position->begin(actor.id);
  sequence.running = &actor;
  if (worker_plan.loaded->abandoned.load(std::memory_order_acquire)) return true;  // later acts run no kernels
  actor.collective->start(actor.collective_in, actor.collective_out, actor.staging);
  return advance_collective(worker_plan, sequence);
}

bool advance_collective(WorkerPlan& worker_plan, SequenceState& sequence) {
  if (sequence.running == nullptr) return false;  // an early message; the links are polled when the turn begins
  const ActorState& actor = *sequence.running;
  if (!actor.collective->advance()) return false;
  worker_plan.sent_bytes.find(actor.actor->collective->kind)
      ->second.add(sequence.endpoint->bytes_sent() - sequence.sent_before);
  sequence.sent_before = sequence.endpoint->bytes_sent();
  return true;
}

ActorState& advance_sequence(SequenceState& sequence) {
  sequence.running->collective->abandon();  // in case the collective could not end by itself
  sequence.running = nullptr;
  sequence.position->end();
  return *sequence.by_position[static_cast<std::size_t>(sequence.position->turn)];
}

void abandon_collectives(LoadedPlan& loaded) {
  if (loaded.abandoned.exchange(true)) return;
  for (auto& worker_plan : loaded.worker_plans)
    if (worker_plan) loaded.boxes[static_cast<std::size_t>(worker_plan->worker)]->post(&worker_plan->abandon);
}

// Skips plans without a running launch: such a plan may be in the middle of unloading, so no mail may be posted to it.
void abort_launches(LaunchAbort& launch_abort) {
  for (const auto& loaded : launch_abort.plans) {
    if (loaded->queued == 0) continue;
    {
      std::lock_guard lock(loaded->error_mutex);
      if (!loaded->collective_error) loaded->collective_error = launch_abort.error;
    }
    loaded->poisoned.store(0, std::memory_order_relaxed);
    abandon_collectives(*loaded);
  }
}

}  // namespace karez::runtime
