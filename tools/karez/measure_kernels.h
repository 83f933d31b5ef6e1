// The rates of this processor's kernels by kind of work and size, as a cost table has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/plan/catalog.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

// A call whose work is of this rate.
struct Sample {
  std::size_t rate;
  CallSpec call;
  sbp::Work work;
};

// One or more for each rate; of several the middle rate counts.
std::vector<Sample> kernel_samples(int team);

// Seconds of a call by the best kernel: the quickest of a few rounds that take `seconds` together, since what else the
// machine does only slows it.
double seconds_of(const CallSpec& call, double seconds);

// Of one thread and of `team`, where that is more: each sample for a twentieth of a second.
std::vector<RateSet> measure_kernels(const std::string& isa, int team);

// What a call in the engine takes beside its bytes.
double measure_call();

// Puts the class "local", of links within this process, into a table that has rates, and how fast devices copy and add
// up what they receive.
void measure_local_link(CostTable& costs);

// A table of all these: their origin, with the processor's name and this date, stands in it.
CostTable measure_costs(int team, std::string_view date);

}  // namespace karez::tools
