// Unloading: the two rounds.
#include "karez/runtime/unload.h"

#include <algorithm>

#include "karez/runtime/session.h"

namespace karez::runtime {

void Unloading::begin(Loaded& loaded) {
  loaded.leaving = true;
  if (loaded.queued == 0) ask_parts_to_go(loaded);
}

void Unloading::launch_over(Loaded& loaded) {
  if (--loaded.queued == 0 && loaded.leaving) ask_parts_to_go(loaded);
}

// When a launch is over every act that mattered is, but tokens may still be on their way home. In the first round each
// worker stops serving its part, and so stops sending. What was sent before stands in the mailboxes before the mail of
// the second round: when all have answered that one, too, no mail of this plan is left anywhere.
void Unloading::ask_parts_to_go(Loaded& loaded) {
  ++loaded.round;
  for (auto& part : loaded.parts) loaded.attached += part != nullptr;
  for (auto& part : loaded.parts) {
    if (!part) continue;
    part->detach.what = Mail::What::detach;
    loaded.boxes[static_cast<std::size_t>(part->worker)]->post(&part->detach);
  }
  if (loaded.attached == 0) session_.left(loaded);  // a plan without an actor
}

void Unloading::detach(Part& part) {
  part.leaving = true;
  protocol_.detach(part);
  open_late(part.detach);
}

// Mail for a part that is leaving: it has no effect, except that an asynchronous kernel that still runs is waited for.
void Unloading::open_late(Mail& mail) {
  Part& part = *mail.part;
  if (mail.what == Mail::What::finished) {
    const ActorState& actor = *part.actors[static_cast<std::size_t>(mail.place)];
    if (actor.work == Work::later) part.stream_busy[static_cast<std::size_t>(actor.stream)] = 0;
  } else if (mail.what != Mail::What::detach) {
    return;
  }
  if (std::find(part.stream_busy.begin(), part.stream_busy.end(), 1) != part.stream_busy.end()) return;
  part.detach.what = Mail::What::detached;
  part.detach.payload = part.loaded;
  part.detach.part = nullptr;
  part.loaded->boxes[0]->post(&part.detach);
}

void Unloading::detached(Loaded& loaded) {
  if (--loaded.attached > 0) return;
  if (loaded.round == 2) return session_.left(loaded);
  for (auto& part : loaded.parts)
    if (part) part->detach.part = part.get();
  ask_parts_to_go(loaded);
}

}  // namespace karez::runtime
