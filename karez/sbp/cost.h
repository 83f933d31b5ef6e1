// The cost table: alpha-beta of each mesh axis' links and compute rates; the one source of prices for every decision.
#pragma once

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
  LinkCost link;  // of every axis that has no entry below
  std::vector<std::pair<std::string, LinkCost>> axis_links;
  double matmul_flops = 1e11;  // floating point operations a second of one device, where no rate below says more
  double conv_flops = 8e10;
  double memory_bytes = 1e10;  // bytes a second that one device reads and writes in pointwise work, and where it copies
                               // and adds up what it receives
  double call = 1e-6;          // seconds of overhead per kernel call
  Rates rates = {};            // that count
  std::vector<RateSet> sets = {};  // measured: by instructions and threads, from which `on` takes those that count
  std::string origin = {};         // "measured on ... 2026-11-23"; "": nobody said

  // Whether nobody measured or gave these numbers.
  bool is_default() const;

  const LinkCost& of_axis(std::string_view name) const;
  // Seconds of one call on one device: of its operations or the bytes that it touches, whichever take longer, plus the
  // call.
  double seconds(const Work& work) const;

  // The table for devices with these instructions (no others' sets are left), by calls of `team` threads, of which each
  // worker thread serves `devices` in turn: work takes so many times longer, and so do the bytes of links of the class
  // "local", within a process; messages do not, for whoever waits for one leaves the worker to others. Between two
  // teams rates grow by a power of the threads. Of no rates: the table as it is.
  CostTable with_isa(std::string_view isa) const;
  CostTable with_threads(int team, int devices) const;

  void check() const;         // throws on what is not finite, on a rate of zero or less, and on two links of one axis
  std::string print() const;  // text that `parse` reads back; part of the program hash
  static CostTable parse(std::string_view text);  // and checks
  bool operator==(const CostTable&) const = default;
};

// What origins of default tables begin with.
inline constexpr std::string_view default_origin = "defaults, which no processor was measured for";
// Where the numbers come from, in one line.
std::string origin_text(const CostTable& costs);
// What is printed next to a number that such a table predicts: "" or " with default costs (`karez doctor` measures this
// machine)".
std::string_view default_costs_warning(const CostTable& costs);

}  // namespace karez::sbp
