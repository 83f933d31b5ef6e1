// The cost table: alpha-beta of each mesh axis' links and compute rates; the one source of prices for every decision.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace karez::sbp {

struct LinkCost {
  double alpha = 2e-6;  // seconds per message
  double beta = 1e-10;  // seconds per byte
  bool operator==(const LinkCost&) const = default;
};

// What kind of work a node is; each has a rate.
enum class WorkClass { none, matmul, conv, memory };

struct CostTable {
  LinkCost link;  // of every axis that has no entry below
  std::vector<std::pair<std::string, LinkCost>> axis_links;
  double matmul_flops = 1e11;  // floating point operations a second of one device
  double conv_flops = 8e10;
  double memory_bytes = 1e10;  // bytes a second that one device reads and writes in pointwise work
  double call = 1e-6;          // seconds of overhead per kernel call

  const LinkCost& of_axis(std::string_view name) const;
  // Seconds of one call on one device that does `flops` of the class and touches `bytes`: the larger of both, plus the call.
  double seconds(WorkClass work, double flops, double bytes) const;

  void check() const;                             // throws on what is not finite, on a rate of zero or less, and on two links of one axis
  std::string print() const;                      // text that `parse` reads back; part of the program hash
  static CostTable parse(std::string_view text);  // and checks
  bool operator==(const CostTable&) const = default;
};

}  // namespace karez::sbp
