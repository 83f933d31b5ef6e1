// Records when the calls of an act end, and for some calls how long they used a core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "karez/kernels/cpu/team_time.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Reading the CPU time of a thread takes about half a microsecond. It is read for one of four calls that took at least
// `long_call` ticks the last time, for one of 32 that took at least a tenth of this, and never for shorter ones. It is
// the sum over the threads of a call's team. Does nothing if no profile is on.
class CallTimer {
 public:
  CallTimer(const LoadedPlan& loaded, const ActorState& actor, EventRing& events)
      : loaded_(loaded),
        actor_(actor),
        events_(events),
        long_call_(loaded.long_call.load(std::memory_order_relaxed)) {}

  void begin(PreparedCall& call) {
    if (long_call_ == 0) return;
    const bool measures =
        call.last_ticks * 10 >= long_call_ && call.timed++ % (call.last_ticks >= long_call_ ? 4 : 32) == 0;
    cpu_ = measures ? kernels::team_cpu_time(call.call->team) : -1;
    begin_ = events_.time();  // when the act began or the call before this one ended
  }
  void end(PreparedCall& call, std::size_t number) {
    if (long_call_ == 0) return;
    events_.update_time();
    call.last_ticks = events_.time() - begin_;
    if (cpu_ >= 0) {
      const std::int64_t used = kernels::team_cpu_time(call.call->team) - cpu_;
      record(EventKind::used_cpu, std::clamp<std::int64_t>(used, 0, std::numeric_limits<std::uint32_t>::max()));
    }
    record(EventKind::called, static_cast<std::int64_t>(number));
  }

 private:
  void record(EventKind kind, std::int64_t piece) {
    events_.act(kind, loaded_.number, actor_.ticket, actor_.id, piece);
  }

  const LoadedPlan& loaded_;
  const ActorState& actor_;
  EventRing& events_;
  const std::int64_t long_call_;
  std::int64_t cpu_ = -1, begin_ = 0;
};

}  // namespace karez::runtime
