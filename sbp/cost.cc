// The cost table: lookup, the price of a call, and its text.
#include "sbp/cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/scan.h"
#include "base/text.h"

namespace karez::sbp {
namespace {
struct Rate {
  std::string_view name;
  double CostTable::*field;
};
constexpr Rate rates[] = {{"matmul_flops", &CostTable::matmul_flops},
                          {"conv_flops", &CostTable::conv_flops},
                          {"memory_bytes", &CostTable::memory_bytes},
                          {"call", &CostTable::call}};

std::string print_link(const LinkCost& link) { return cat("alpha=", number(link.alpha), " beta=", number(link.beta)); }

double number_after(Scan& in, std::string_view word) {
  in.expect(word);
  bool is_integer = false;
  return in.number(is_integer);
}

LinkCost parse_link(Scan& in) { return {.alpha = number_after(in, "alpha="), .beta = number_after(in, "beta=")}; }

void check(double value, double least, std::string_view name, std::string_view of = "") {
  require(std::isfinite(value) && value >= least, "costs: ", name, of, " is ", value, "; it must be a finite number, at least ", least);
}

void check(const LinkCost& link, std::string_view of) {
  check(link.alpha, 0, "alpha", of);
  check(link.beta, 0, "beta", of);
}
}  // namespace

void CostTable::check() const {
  sbp::check(link, "");
  for (auto at = axis_links.begin(); at != axis_links.end(); ++at) {
    for (auto before = axis_links.begin(); before != at; ++before)
      require(before->first != at->first, "costs: the link of axis ", at->first, " appears twice");
    sbp::check(at->second, cat(" of @", at->first));
  }
  for (const Rate& rate : rates) sbp::check(this->*rate.field, rate.field == &CostTable::call ? 0 : 1e-300, rate.name);  // one divides by rates
}

const LinkCost& CostTable::of_axis(std::string_view name) const {
  for (const auto& [axis, cost] : axis_links)
    if (axis == name) return cost;
  return link;
}

double CostTable::seconds(WorkClass work, double flops, double bytes) const {
  double moving = bytes / memory_bytes;
  switch (work) {
    case WorkClass::none: return 0;  // a view: nothing is called
    case WorkClass::matmul: return std::max(flops / matmul_flops, moving) + call;
    case WorkClass::conv: return std::max(flops / conv_flops, moving) + call;
    case WorkClass::memory: return moving + call;
  }
  return 0;
}

std::string CostTable::print() const {
  std::string out = cat("link ", print_link(link), "\n");
  for (const auto& [axis, cost] : axis_links) out += cat("link @", axis, " ", print_link(cost), "\n");
  for (const Rate& rate : rates) out += cat(rate.name, "=", number(this->*rate.field), "\n");
  return out;
}

CostTable CostTable::parse(std::string_view text) {
  Scan in(text, "costs");
  CostTable out;
  while (!in.at_end()) {
    if (in.accept("link")) {
      if (in.accept("@")) {
        std::string axis = in.name();
        out.axis_links.emplace_back(axis, parse_link(in));
      } else {
        out.link = parse_link(in);
      }
      continue;
    }
    std::string name = in.name();
    auto rate = std::find_if(std::begin(rates), std::end(rates), [&](const Rate& r) { return r.name == name; });
    if (rate == std::end(rates))
      in.fail_here(cat("'", name, "' is no cost; there are link, ", join(rates, ", ", [](const Rate& r) { return r.name; })));
    out.*(rate->field) = number_after(in, "=");
  }
  out.check();
  return out;
}

}  // namespace karez::sbp
