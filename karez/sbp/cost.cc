// Lookup in the cost table, the predicted time of a call, and the text format of the table.
#include "karez/sbp/cost.h"

#include <algorithm>
#include <cmath>

#include "karez/base/error.h"
#include "karez/base/scanner.h"
#include "karez/base/text.h"

namespace karez::sbp {
namespace {
struct Rate {
  std::string_view name;
  double CostTable::*field;
};
constexpr Rate coarse_rates[] = {{"matmul_flops", &CostTable::matmul_flops},
                                 {"conv_flops", &CostTable::conv_flops},
                                 {"memory_bytes", &CostTable::memory_bytes},
                                 {"call", &CostTable::call},
                                 {"team_call", &CostTable::team_call}};

// Returns the smallest value of a rate. Rates are divisors, unless they are seconds.
double min_of(const Rate& rate) {
  return rate.field == &CostTable::call || rate.field == &CostTable::team_call ? 0 : 1e-300;
}

std::string print_link(const LinkCost& link) { return cat("alpha=", number(link.alpha), " beta=", number(link.beta)); }

double number_after(Scanner& in, std::string_view word) {
  in.expect(word);
  bool is_integer = false;
  return in.number(is_integer);
}

LinkCost parse_link(Scanner& in) { return {.alpha = number_after(in, "alpha="), .beta = number_after(in, "beta=")}; }

void check(double value, double min_value, std::string_view name, std::string_view owner = "") {
  require(std::isfinite(value) && value >= min_value, "costs: ", name, owner, " is ", value,
          "; it must be a finite number, at least ", min_value);
}

void check(const LinkCost& link, std::string_view owner) {
  check(link.alpha, 0, "alpha", owner);
  check(link.beta, 0, "beta", owner);
}

// Checks all known rates; unknown rates of a set are 0.
void check_rates(const Rates& rates, std::string_view owner) {
  for (std::size_t i = 0; i < rate_count; ++i)
    if (rates[i] != 0) check(rates[i], 1e-300, cat("rate ", rate_name(i)), owner);
}

std::string print_rates(std::string_view prefix, const Rates& rates) {
  std::string out;
  for (std::size_t i = 0; i < rate_count; ++i)
    if (rates[i] != 0) out += cat(prefix, rate_name(i), "=", number(rates[i]), "\n");
  return out;
}

constexpr std::string_view one_thread_prefix = "one_thread";

// Parses "matmul.square=1e11", a rate in effect, "one_thread matmul.square=1e11", a rate of one thread, or "avx512 team
// 2 matmul.square=1e11", a rate of a set.
void parse_rate(Scanner& in, CostTable& out) {
  std::string name = in.name();
  Rates* target = &out.rates;
  if (in.accept("team")) {
    const std::int64_t team = in.integer();
    if (team < 1 || team > 1024) in.fail_here(cat("a team of ", team, " threads; it must have 1 to 1024"));
    auto set = std::find_if(out.sets.begin(), out.sets.end(),
                            [&](const RateSet& s) { return s.isa == name && s.team == team; });
    if (set == out.sets.end()) set = out.sets.insert(set, {name, static_cast<int>(team), {}});
    target = &set->rates;
    name = in.name();
  } else if (name == one_thread_prefix) {
    target = &out.one_thread;
    name = in.name();
  }
  const std::size_t rate = find_rate(name);
  if (rate == rate_count) in.fail_here(cat("'", name, "' is not a rate that this build of Karez supports"));
  if ((*target)[rate] != 0) in.fail_here(cat("rate ", name, " appears twice"));
  check((*target)[rate] = number_after(in, "="), 1e-300, cat("rate ", name));
}
}  // namespace

void CostTable::check() const {
  sbp::check(link, "");
  for (auto entry = axis_links.begin(); entry != axis_links.end(); ++entry) {
    for (auto previous = axis_links.begin(); previous != entry; ++previous)
      require(previous->first != entry->first, "costs: the link of axis ", entry->first, " appears twice");
    sbp::check(entry->second, cat(" of @", entry->first));
  }
  for (const Rate& rate : coarse_rates) sbp::check(this->*rate.field, min_of(rate), rate.name);
  check_rates(rates, ""), check_rates(one_thread, " of one thread");
  for (auto entry = sets.begin(); entry != sets.end(); ++entry) {
    const std::string owner = cat(" of ", entry->isa, " team ", entry->team);
    require(entry->team >= 1 && entry->team <= 1024, "costs: rates", owner, "; a team must have 1 to 1024 threads");
    for (auto previous = sets.begin(); previous != entry; ++previous)
      require(previous->isa != entry->isa || previous->team != entry->team, "costs: rates", owner, " appear twice");
    check_rates(entry->rates, owner);
  }
}

bool CostTable::is_default() const {
  CostTable copy = *this;
  copy.origin.clear();
  return (origin.empty() || starts_with(origin, default_origin)) && copy == CostTable();
}

std::string origin_text(const CostTable& costs) {
  if (!costs.origin.empty()) return costs.origin;
  return costs.is_default() ? cat(default_origin, "; `karez doctor --kernels --save` measures this one")
                            : "from a table without an origin";
}

std::string_view default_costs_warning(const CostTable& costs) {
  return costs.is_default() ? " with default costs (`karez doctor --kernels --save` measures this machine)" : "";
}

const LinkCost& CostTable::of_axis(std::string_view name) const {
  for (const auto& [axis, cost] : axis_links)
    if (axis == name) return cost;
  return link;
}

namespace {

bool is_product(WorkClass work) { return work != WorkClass::none && work < WorkClass::memory; }

// Returns the rates for calls of `team` threads, from the sets of one processor.
Rates rates_of(const std::vector<RateSet>& sets, int team) {
  const RateSet *smaller = nullptr, *larger = nullptr;
  for (const RateSet& set : sets) {
    if (set.team <= team && (smaller == nullptr || set.team > smaller->team)) smaller = &set;
    if (set.team >= team && (larger == nullptr || set.team < larger->team)) larger = &set;
  }
  if (smaller == nullptr || larger == nullptr || smaller == larger)
    return smaller != nullptr ? smaller->rates : larger->rates;
  Rates out = smaller->rates;
  const double fraction =
      std::log(static_cast<double>(team) / smaller->team) / std::log(static_cast<double>(larger->team) / smaller->team);
  for (std::size_t i = 0; i < rate_count; ++i)
    if (larger->rates[i] > 0)
      out[i] = out[i] > 0 ? out[i] * std::pow(larger->rates[i] / out[i], fraction) : larger->rates[i];
  return out;
}

// Returns the seconds of a call with these rates, without the overhead of calls.
double work_seconds(const CostTable& costs, const Rates& rates, const Work& work, std::size_t rate) {
  const std::size_t memory_rate =
      is_product(work.work) ? rate_of({.work = WorkClass::memory, .bytes = work.bytes}) : rate;
  const double memory_seconds = work.bytes / (rates[memory_rate] > 0 ? rates[memory_rate] : costs.memory_bytes);
  const double coarse_rate = work.work == WorkClass::matmul ? costs.matmul_flops : costs.conv_flops;
  if (is_product(work.work))
    return std::max(work.flops / (rates[rate] > 0 ? rates[rate] : coarse_rate), memory_seconds);
  return rates[functions_rate] > 0 ? std::max(work.flops / rates[functions_rate], memory_seconds) : memory_seconds;
}

}  // namespace

double CostTable::seconds(const Work& work) const {
  const std::size_t rate = rate_of(work);
  if (rate == rate_count) return 0;  // a view has no kernel call
  const double seconds = work_seconds(*this, rates, work, rate);
  if (one_thread[rate] <= 0 || rates[rate] <= 0) return seconds + call;
  return std::min(seconds + team_call, work_seconds(*this, one_thread, work, rate)) + call;
}

std::optional<bool> CostTable::team_is_faster(const Work& work) const {
  const std::size_t rate = rate_of(work);
  if (rate == rate_count || one_thread[rate] <= 0 || rates[rate] <= 0) return std::nullopt;
  return work_seconds(*this, rates, work, rate) + team_call < work_seconds(*this, one_thread, work, rate);
}

CostTable CostTable::with_isa(std::string_view isa) const {
  CostTable out = *this;
  std::erase_if(out.sets, [&](const RateSet& set) { return set.isa != isa; });
  return out;
}

CostTable CostTable::with_threads(int team, int devices) const {
  CostTable out = *this;
  if (!sets.empty()) {
    out.rates = rates_of(sets, team);
    if (team > 1 && team_call > 0) out.one_thread = rates_of(sets, 1);
    else out.team_call = 0;
  }
  out.sets.clear();
  if (out.rates == Rates()) return out;  // rates that were not measured do not depend on the number of threads
  const double slowdown = devices;
  for (Rates* list : {&out.rates, &out.one_thread})
    for (double& rate : *list) rate /= slowdown;
  for (double* rate : {&out.matmul_flops, &out.conv_flops, &out.memory_bytes}) *rate /= slowdown;
  out.call *= slowdown, out.team_call *= slowdown;
  for (auto& [axis, cost] : out.axis_links)
    if (axis == "local") cost.beta *= slowdown;
  return out;
}

std::string CostTable::print() const {
  std::string out = origin.empty() ? "" : cat("origin ", quote(origin), "\n");
  out += cat("link ", print_link(link), "\n");
  for (const auto& [axis, cost] : axis_links) out += cat("link @", axis, " ", print_link(cost), "\n");
  for (const Rate& rate : coarse_rates)
    if (rate.field != &CostTable::team_call || team_call > 0)
      out += cat(rate.name, "=", number(this->*rate.field), "\n");
  out += print_rates("rate ", rates) + print_rates(cat("rate ", one_thread_prefix, " "), one_thread);
  for (const RateSet& set : sets) out += print_rates(cat("rate ", set.isa, " team ", set.team, " "), set.rates);
  return out;
}

CostTable CostTable::parse(std::string_view text) {
  Scanner in(text, "costs");
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
    if (name == "origin") {
      out.origin = in.quoted();
      continue;
    }
    if (name == "rate") {
      parse_rate(in, out);
      continue;
    }
    auto rate =
        std::find_if(std::begin(coarse_rates), std::end(coarse_rates), [&](const Rate& r) { return r.name == name; });
    if (rate == std::end(coarse_rates))
      in.fail_here(cat("unknown cost '", name, "'; expected one of: origin, link, rate, ",
                       join(coarse_rates, ", ", [](const Rate& r) { return r.name; })));
    out.*(rate->field) = number_after(in, "=");
  }
  out.check();
  return out;
}

}  // namespace karez::sbp
