// What all ranks of a world compare before they run something together. Each throws on all of them where two differ, with the first difference; in a
// world of one rank each is nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/compile.h"
#include "api/inside/world_state.h"

namespace karez {

// That all have made this program, before any of them goes on; `text` is its own, asked for where two differ. `who` names it.
void agree_on_program(WorldState& world, std::uint64_t hash, const std::string& who, const std::function<std::string()>& text);

// That all write this value, named by `who`.
void agree_on_value(WorldState& world, const HostArray& value, const std::string& who);

// That all begin anew.
void agree_on_reset(WorldState& world);

// Under WorldOptions::check_inputs: that a call's arguments are the same on all ranks, but for parts by local().
void agree_on_arguments(WorldState& world, const std::string& call, const std::vector<Argument>& arguments);

// That each two ranks see what goes between them alike, before the first link is made. Also by ranks that have no part in the plan.
void agree_on_links(WorldState& world, const plan::Plan& plan, const std::string& who);

}  // namespace karez
