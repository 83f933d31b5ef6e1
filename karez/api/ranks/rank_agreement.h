// What all ranks of a world compare before they run something together. Each throws on all of them where two differ,
// with the first difference; in a world of one rank each is nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/state/world_state.h"
#include "karez/runtime/agreement.h"

namespace karez {

// That all have made this program, before any of them goes on; `text` is its own, asked for where two differ. `who`
// names it.
void agree_on_program(WorldState& world, std::uint64_t hash, const std::string& who,
                      const std::function<std::string()>& text);

// An op that all ranks ask for before it begins.
struct OpRequest {
  std::uint64_t hash = 0;
  std::string what;                      // "a read of f64[3@d]"
  std::optional<SourceLine> where = {};  // that it is written on
  std::string_view advice = {};          // how to write it, for an error
  bool is_barrier = false;               // no launch follows
};
// Waits until all have asked for it, and gives its number. Throws where one comes to something else: on all that asked,
// and nothing has begun then.
std::uint64_t agree_on_op(WorldState& world, const OpRequest& request);

// That all write this value, which `what` names.
void agree_on_value(WorldState& world, const HostArray& value, const std::string& what);

// That all begin anew.
void agree_on_reset(WorldState& world);

// What a call takes: its arguments, and the numbers that the program sets between calls, by name.
struct CallInputs {
  const std::vector<Argument>& arguments;
  std::vector<std::pair<std::string, double>> numbers;
};

// That they are the same on all ranks, but for parts by local(): by hashes of all bytes. `call` is the call's name,
// `number` counts the calls of its program.
void agree_on_inputs(WorldState& world, const std::string& call, int number, const CallInputs& inputs);

// The same for a note that nobody waits for: of large arrays some cache lines alone, which `draw` chooses (the same on
// all ranks).
runtime::InputHashes sampled_hashes(const CallInputs& inputs, std::uint64_t draw);

// That each two ranks see what goes between them alike, before the first link is made. Also by ranks that have no part
// in the plan.
void agree_on_links(WorldState& world, const plan::Plan& plan, const std::string& who);

}  // namespace karez
