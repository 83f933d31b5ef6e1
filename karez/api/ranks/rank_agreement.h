// Checks that all ranks of a world run the same programs and ops with the same inputs. If two ranks differ, a check
// throws, on all ranks that made it, an error that shows the first difference. In a world of one rank, the checks do
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/argument.h"
#include "karez/api/state/world_state.h"
#include "karez/runtime/control.h"

namespace karez {

// Checks that all ranks have made this program before any of them continues. `text` prints this rank's program; it is
// called only if two ranks differ. `subject` names the program.
void agree_on_program(WorldState& world, std::uint64_t hash, const std::string& subject,
                      const std::function<std::string()>& text);

// An op that all ranks must request before it begins.
struct OpRequest {
  std::uint64_t hash = 0;
  std::string what;                      // "a read of f64[3@d]"
  std::optional<SourceLine> where = {};  // the line of the user's program
  std::string_view advice = {};          // the correct use, for an error message
  bool is_barrier = false;               // no launch follows
};
// Waits until all ranks have requested the op, and returns its number. If a rank calls a different op, throws on all
// ranks that requested this one, and no op begins.
std::uint64_t agree_on_op(WorldState& world, const OpRequest& request);

// Checks that all ranks write this value; `what` describes the write.
void agree_on_value(WorldState& world, const HostArray& value, const std::string& what);

// Checks that all ranks reset.
void agree_on_reset(WorldState& world);

// The inputs of a call: its arguments, and the numbers that the host may change between calls (learning rates), by
// name.
struct CallInputs {
  const std::vector<Argument>& arguments;
  std::vector<std::pair<std::string, double>> numbers;
};

// Checks that the inputs are equal on all ranks, by comparing hashes of all bytes. Parts that local() made are not
// compared. `call` names the call, and `number` counts the calls of its program.
void agree_on_inputs(WorldState& world, const std::string& call, int number, const CallInputs& inputs);

// Returns hashes for a check that does not wait for the other ranks. For a large array, only some cache lines are
// hashed. `draw` selects these lines, so it must be the same on all ranks.
runtime::InputHashes sampled_hashes(const CallInputs& inputs, std::uint64_t draw);

// Returns the largest number of all ranks. `what` describes the number, and is equal on all ranks.
std::int64_t agree_on_maximum(WorldState& world, std::int64_t number, const std::string& what);

// Checks that each pair of ranks agrees on the transfers between them, before the first link is made. Ranks without
// devices in the plan must call this function too.
void agree_on_links(WorldState& world, const plan::Plan& plan, const std::string& subject);

}  // namespace karez
