// Unloading a plan while others run: its workers let go of it in two rounds of mail, and then nobody can touch its
// memory any more.
#pragma once

#include "karez/runtime/namespace.h"
#include "karez/runtime/protocol.h"

namespace karez::runtime {

class Session;

class Unloading {
 public:
  Unloading(Session& session, Protocol& protocol) : session_(session), protocol_(protocol) {}

  // Worker 0: the plan shall go (it hears of it after every launch of the plan, because both are posted in order); a
  // launch of it is over; a part of it answered.
  void begin(Loaded& loaded);
  void launch_over(Loaded& loaded);
  void detached(Loaded& loaded);

  // Any worker: stop serving the part; mail for a part that is leaving.
  void detach(Part& part);
  void open_late(Mail& mail);

 private:
  void ask_parts_to_go(Loaded& loaded);

  Session& session_;
  Protocol& protocol_;
};

}  // namespace karez::runtime
