// What happens when an act's work throws: the first error is the launch's, and the rest of the launch completes without working.
#pragma once

#include <string>

namespace karez::runtime {

struct ActorState;
struct Loaded;

// Inside a catch block: what was thrown, whatever its type.
std::string thrown_text();

// Throws itself if no launch is in flight: then nobody waits for the error, and the session must break.
void fail_launch(Loaded& loaded, const ActorState& actor, const std::string& what, const std::string& where);

}  // namespace karez::runtime
