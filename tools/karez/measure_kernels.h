// Measures the rates of this processor's kernels by kind of work and size, for a cost table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/plan/catalog.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

// A call by which a rate is measured.
struct Sample {
  std::size_t rate;
  CallSpec call;
  sbp::Work work;
};

// Returns one or more samples per rate; the rate is the geometric mean of its samples.
std::vector<Sample> kernel_samples(int team);

// Returns the seconds that a call takes with the kernel that the kernel table selects. Measures a few rounds, which
// together take `seconds` seconds, and uses the fastest one, because other work on the machine can only slow a round.
double seconds_of(const CallSpec& call, double seconds);

// The fastest seconds of a call, measured one or more times.
struct TeamTimes {
  double one_thread = 1e30;              // repeated on one thread
  double alone = 1e30, together = 1e30;  // on one thread and on the team, after this thread has written the operands
  double on_team(int team) const;        // the call's seconds on the team; those on one thread if it is not measured
};
// Measures `alone` and `together` in alternation, for `seconds` seconds. Before each run this thread writes the
// operands, unless they are too large for the cache of one core: in a program, operands may come from a call that ran
// on one thread, and the team first has to fetch them.
void measure_team(const CallSpec& call, double seconds, TeamTimes& times);

struct KernelCosts {
  std::vector<RateSet> sets;  // of one thread, and of the team if it has more threads
  // The part of the time of a short call on the team that the team's rates do not explain: the time to start the team
  // and to wait for its last thread. 0 for a team of one.
  double team_call = 0;
};
// Measures the rates of one thread, and of `team` threads if that is more.
KernelCosts measure_kernels(const std::string& isa, int team);

// Returns the fixed cost of a call in the engine, in seconds, without the call's memory traffic.
double measure_call();

// Measures the links within this process (the link class "local") and the rate at which devices copy and sum received
// data, and adds both to `costs`, which must already have rates.
void measure_local_link(CostTable& costs);

// Appended to the origin of a table if other programs used the cores while it was measured.
inline constexpr std::string_view contention_note = ", while other programs used the cores";
// Measures a complete table, whose origin names the processor and the date.
CostTable measure_costs(int team, std::string_view date);

}  // namespace karez::tools
