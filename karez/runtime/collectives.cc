// Collectives under way.
#include "karez/runtime/collectives.h"

namespace karez::runtime {

bool begin_collective(Part& part, ActorState& actor) {
  Sequence& sequence = *part.sequences[static_cast<std::size_t>(actor.sequence)];
  sequence.position->begin(actor.id);
  sequence.running = &actor;
  if (part.loaded->abandoned.load(std::memory_order_acquire)) return true;  // and what follows sees the poison
  actor.collective->start(actor.collective_in, actor.collective_out, actor.staging);
  return advance_collective(part, sequence);
}

bool advance_collective(Part& part, Sequence& sequence) {
  if (sequence.running == nullptr) return false;  // the peers are ahead; the links are looked at when our turn begins
  const ActorState& actor = *sequence.running;
  if (!actor.collective->advance()) return false;
  part.sent_bytes.find(actor.actor->collective->kind)
      ->second.add(sequence.endpoint->bytes_sent() - sequence.sent_before);
  sequence.sent_before = sequence.endpoint->bytes_sent();
  return true;
}

ActorState& pass_turn(Sequence& sequence) {
  sequence.running->collective->abandon();  // where it could not end by itself
  sequence.running = nullptr;
  sequence.position->end();
  return *sequence.by_turn[static_cast<std::size_t>(sequence.position->turn)];
}

void abandon_collectives(Loaded& loaded) {
  if (loaded.abandoned.exchange(true)) return;
  for (auto& part : loaded.parts)
    if (part) loaded.boxes[static_cast<std::size_t>(part->worker)]->post(&part->abandon);
}

// A plan of which no launch is under way may be on its way out: nothing is posted to it.
void break_off(Breaking& breaking) {
  for (const auto& loaded : breaking.plans) {
    if (loaded->queued == 0) continue;
    {
      std::lock_guard lock(loaded->breaking);
      if (!loaded->broken_by) loaded->broken_by = breaking.error;
    }
    loaded->poisoned.store(0, std::memory_order_relaxed);
    abandon_collectives(*loaded);
  }
}

}  // namespace karez::runtime
