// The cost table: link latencies and bandwidths per mesh axis, and compute rates. All predicted times are derived from
// it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/rates.h"

namespace karez::sbp {

struct LinkCost {
  double alpha = 2e-6;  // seconds per message
  double beta = 1e-10;  // seconds per byte
  bool operator==(const LinkCost&) const = default;
};

struct CostTable {
  LinkCost link;  // for every axis without an entry below
  std::vector<std::pair<std::string, LinkCost>> axis_links;
  double matmul_flops = 1e11;  // floating-point operations per second of one device, unless a rate below applies
  double conv_flops = 8e10;
  double memory_bytes = 1e10;      // bytes per second that one device reads and writes in pointwise work, and when it
                                   // copies or reduces received data
  double call = 1e-6;              // seconds of overhead per kernel call
  double team_call = 0;            // further seconds per call of several threads; 0 if not measured
  Rates rates = {};                // the rates in effect
  Rates one_thread = {};           // if calls may run on one thread instead of on the team: the rates of one thread
  std::vector<RateSet> sets = {};  // measured rates by instruction set and threads, from which with_threads chooses
  std::string origin = {};         // where the numbers come from: "measured on ... 2026-11-23"; "" if unknown

  // True if all numbers are the defaults, neither measured nor set by the user.
  bool is_default() const;

  const LinkCost& of_axis(std::string_view name) const;
  // Returns the seconds of one call on one device: the time for its operations or for the bytes that it accesses,
  // whichever is longer, plus the overhead. If the table has rates for one thread and for the team, it is the time of
  // whichever is faster.
  double seconds(const Work& work) const;
  // Returns whether a call of the team is faster than a call of one thread; nullopt if the table does not know.
  std::optional<bool> team_is_faster(const Work& work) const;

  // with_isa keeps only the sets of this instruction set. with_threads returns the table for calls of `team` threads
  // when each worker thread serves `devices` devices in turn: calls take `devices` times longer, and so does sending
  // bytes over "local" links, within a process. Messages do not take longer, because a device that waits for a message
  // leaves the worker to other devices. Between two measured teams, rates are interpolated by a power law in the number
  // of threads. The result has rates for one thread too if `team_call` was measured. A table without rates does not
  // change.
  CostTable with_isa(std::string_view isa) const;
  CostTable with_threads(int team, int devices) const;

  void check() const;         // throws if a number is out of range, or if an axis or a set of rates appears twice
  std::string print() const;  // text that `parse` accepts; part of the program hash
  static CostTable parse(std::string_view text);  // also checks the table
  bool operator==(const CostTable&) const = default;
};

// The origin of a default table begins with this text.
inline constexpr std::string_view default_origin = "defaults, not measured on any processor";
// The origin of the numbers, in one line.
std::string origin_text(const CostTable& costs);
// The text printed after a number that was predicted with this table: "", or for the default table " with default
// costs" and the command that measures this machine.
std::string_view default_costs_warning(const CostTable& costs);

}  // namespace karez::sbp
