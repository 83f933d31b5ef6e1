// Finds the cheapest slots by branch and bound.
#include "karez/solve/slot_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "karez/base/error.h"
#include "karez/base/interrupt.h"

namespace karez::solve {
namespace {
using WaitKind = SlotCycle::WaitKind;

constexpr double integer_tolerance = 1e-6;    // a value this close to an integer counts as an integer
constexpr std::int64_t max_unit = 1'000'000;  // rows with larger factors are omitted
}  // namespace

bool meets_interval(const SlotCycle& cycle, double interval) {
  return !cycle.is_deadlock() && cycle.interval <= interval * (1 + 1e-9);
}

SlotSearch::SlotSearch(const SlotProblem& problem, const ActGraph& graph, std::vector<int> min_slots,
                       std::vector<int> max_slots)
    : problem_(problem),
      graph_(graph),
      max_(std::move(max_slots)),
      variable_of_(max_.size(), -1) {
  for (int r = 0; r < static_cast<int>(max_.size()); ++r) {
    std::int64_t bytes = problem.registers[r].bytes;
    if (bytes == 0) continue;
    if (min_slots[r] == max_[r]) {
      fixed_bytes_ += bytes * max_[r];
      continue;
    }
    variable_of_[r] = static_cast<int>(register_of_.size());
    register_of_.push_back(r);
    min_.push_back(min_slots[r]);
    high_.push_back(max_[r]);
    price_.push_back(bytes);
    unit_ = price_.size() == 1 ? bytes : std::gcd(unit_, bytes);
  }
  for (auto& price : price_) price /= unit_;
}

std::vector<int> SlotSearch::all_slots(const Slots& x) const {
  std::vector<int> slots = max_;
  for (std::size_t v = 0; v < x.size(); ++v) slots[register_of_[v]] = x[v];
  return slots;
}

std::int64_t SlotSearch::price_of(const Slots& x) const {
  std::int64_t price = 0;
  for (std::size_t v = 0; v < x.size(); ++v) price += price_[v] * x[v];
  return price;
}

SlotCycle SlotSearch::measure(const Slots& x) {
  --steps_;
  return graph_.critical_cycle(all_slots(x));
}

bool SlotSearch::is_slow(const Slots& x) {
  for (const CoverRow& row : rows_) {
    std::int64_t sum = 0;
    for (auto [v, factor] : row.terms) sum += factor * x[v];
    if (sum < row.bound) return true;
  }
  return !meets_interval(measure(x), interval_);
}

SlowCycle SlotSearch::slow_cycle(const SlotCycle& cycle, const Slots& x) const {
  SlowCycle out;
  out.seconds = cycle.seconds;
  out.tokens = cycle.tokens;
  out.symmetry = 0;
  for (const auto& step : cycle.steps) {
    if (step.kind == WaitKind::actor) continue;
    out.symmetry = std::gcd(out.symmetry, step.kind == WaitKind::stream ? 1 : graph_.pieces(step.index));
    int v = step.kind == WaitKind::slot ? variable_of_[step.index] : -1;
    if (v < 0) continue;
    auto position =
        std::find_if(out.parts.begin(), out.parts.end(), [&](const auto& part) { return part.variable == v; });
    if (position == out.parts.end()) position = out.parts.insert(position, {v, x[v], 0, 1});
    ++position->passes;
  }
  for (auto& part : out.parts) part.slots_per_step = graph_.pieces(register_of_[part.variable]) / out.symmetry;
  return out;
}

// Derives a linear row from u = ceil((x - slow_slots) / slots_per_step) <= (x - slow_slots + slots_per_step - 1) /
// slots_per_step; the sum of passes * u is an integer.
CoverRow SlotSearch::row_of(const SlowCycle& cycle) const {
  CoverRow row;
  double required_steps =
      interval_ > 0 ? static_cast<double>(cycle.symmetry) * cycle.seconds / (interval_ * (1 + 1e-9)) : 0;
  // Tokens in units of 1 / symmetry; at least 1, because a cycle without tokens is a deadlock.
  required_steps = std::max(1.0, std::ceil(required_steps * (1 - 1e-12)));
  std::int64_t steps = static_cast<std::int64_t>(required_steps) - cycle.symmetry * cycle.tokens;
  std::int64_t common_unit = 1;
  for (const auto& part : cycle.parts) {
    common_unit = std::lcm(common_unit, part.slots_per_step);
    if (common_unit > max_unit) return row;
  }
  row.bound = checked_mul(common_unit, steps);
  for (const auto& part : cycle.parts) {
    std::int64_t factor = part.passes * (common_unit / part.slots_per_step);
    row.terms.emplace_back(part.variable, factor);
    row.bound += factor * (part.slow_slots - part.slots_per_step + 1);
  }
  tighten(row);
  return row;
}

// Tightens the row without excluding integer solutions x >= low_: limits each factor to the sum that the row requires
// beyond low_, and divides by the greatest common divisor of all factors.
void SlotSearch::tighten(CoverRow& row) const {
  std::int64_t required_steps = row.bound, divisor = 0;
  for (auto [v, factor] : row.terms) required_steps -= factor * low_[v];
  if (required_steps <= 0) return;
  for (auto& [v, factor] : row.terms) {
    row.bound -= (factor - std::min(factor, required_steps)) * low_[v];
    factor = std::min(factor, required_steps);
    divisor = std::gcd(divisor, factor);
  }
  for (auto& term : row.terms) term.second /= divisor;
  row.bound = ceil_div(row.bound, divisor);
}

// Adds the row of the cycle if it excludes `point`. Returns whether it was added.
bool SlotSearch::add_row(const SlotCycle& cycle_found, const Slots& x, std::span<const double> point) {
  SlowCycle cycle = slow_cycle(cycle_found, x);
  CoverRow row = row_of(cycle);
  auto violation = static_cast<double>(row.bound);
  for (auto [v, factor] : row.terms) violation -= static_cast<double>(factor) * point[v];
  if (row.terms.empty() || violation < integer_tolerance) return false;
  rows_.push_back(std::move(row));
  cycles_.push_back(std::move(cycle));
  return true;
}

// Given a slow x, returns bounds, at least one of which every fast enough vector must exceed: with these counts, and
// all other registers at their maximum, the program is still too slow.
std::vector<SlotSearch::SlotLowerBound> SlotSearch::alternatives(const SlotCycle& cycle_found, const Slots& x) {
  Slots slow = high_;
  SlowCycle cycle = slow_cycle(cycle_found, x);
  for (const auto& part : cycle.parts) slow[part.variable] = x[part.variable];
  std::vector<SlotLowerBound> out;
  for (const auto& part : cycle.parts) {
    int& slot_count = slow[part.variable];
    auto is_enough = [&](int slots) {
      slot_count = slots;
      return !is_slow(slow);
    };
    slot_count = fewest(slot_count + 1, high_[part.variable] + 1, is_enough) - 1;
    if (slot_count < high_[part.variable]) out.push_back({part.variable, slot_count});
  }
  return out;
}

// Lowers the slots of x, the most expensive registers first, and stores x if it is the cheapest vector so far.
void SlotSearch::accept(Slots x) {
  std::vector<int> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return price_[a] > price_[b]; });
  lower_each(order, low_, x, [&] { return !is_slow(x); });
  std::int64_t price = price_of(x);
  if (price >= best_) return;
  best_ = price;
  found_ = true;
  best_slots_ = std::move(x);
}

// Sets low_. The results of earlier calls limit it: those for a longer interval are lower bounds, those for a shorter
// one are upper bounds.
void SlotSearch::raise_low() {
  auto next_longer = raised_.lower_bound(interval_);
  const Slots from = next_longer == raised_.end() ? min_ : next_longer->second,
              to = next_longer == raised_.begin() ? high_ : std::prev(next_longer)->second;
  Slots x = high_;
  low_ = from;
  std::vector<int> all(low_.size());
  std::iota(all.begin(), all.end(), 0);
  raise(all, from, to, x);
  raised_[interval_] = low_;
}

// Finds the fewest slots of each variable by bisection over ranges of variables: if the lower bounds of a range are
// enough together, each is also enough alone while all others have their maximum.
void SlotSearch::raise(std::span<const int> variables, const Slots& from, const Slots& to, Slots& x) {
  if (variables.size() == 1) {
    const int v = variables[0];
    auto is_enough = [&](int slots) {
      x[v] = slots;
      return !is_slow(x);
    };
    low_[v] = fewest(from[v], to[v], is_enough);
  } else if (!variables.empty()) {
    for (int v : variables) x[v] = from[v];
    const bool is_enough = !is_slow(x);
    for (int v : variables) x[v] = high_[v];
    if (is_enough) return;
    raise(variables.first(variables.size() / 2), from, to, x);
    raise(variables.subspan(variables.size() / 2), from, to, x);
    return;
  }
  for (int v : variables) x[v] = high_[v];
}

std::int64_t SlotSearch::Node::min_price() const {
  constexpr auto max_price = std::numeric_limits<std::int64_t>::max();
  return bound < static_cast<double>(max_price) ? static_cast<std::int64_t>(std::ceil(bound)) : max_price;
}

// At least one variable must exceed its bound. Makes one child for each variable that may be the first in the list to
// do so.
void SlotSearch::split(const Node& node, std::span<const SlotLowerBound> lower_bounds) {
  Node remaining_node = node;
  std::vector<Node> children;
  for (auto [v, slots] : lower_bounds) {
    if (slots < remaining_node.high[v]) {
      children.push_back(remaining_node);
      children.back().low[v] = std::max(remaining_node.low[v], slots + 1);
    }
    if (slots < remaining_node.low[v]) break;
    remaining_node.high[v] = std::min(remaining_node.high[v], slots);
  }
  for (std::size_t i = children.size(); i-- > 0;) open_nodes_.push_back(std::move(children[i]));
}

void SlotSearch::split_range(Node node, int v) {
  double value = node.program.values()[v];
  Node higher = node;
  node.high[v] = std::clamp(static_cast<int>(std::floor(value)), node.low[v], node.high[v] - 1);
  higher.low[v] = node.high[v] + 1;
  if (value - std::floor(value) > 0.5) std::swap(node, higher);
  open_nodes_.push_back(std::move(higher));
  open_nodes_.push_back(std::move(node));  // the range nearer to the value is explored first
}

void SlotSearch::explore(Node node) {
  const auto count = static_cast<int>(low_.size());
  for (;;) {
    base::check_interrupt();
    if (is_done()) {
      open_nodes_.push_back(std::move(node));
      return;
    }
    --steps_;
    node.program.solve(rows_, node.low, node.high, 1000 + 50 * count);
    node.bound = std::max(node.bound, node.program.bound(rows_, node.low, node.high));
    if (node.min_price() >= best_) return;

    auto point = node.program.values();
    Slots rounded_up(count), nearest_slots(count);
    int fractional = -1, undecided = -1;  // the variable farthest from an integer; one with several allowed values
    double max_distance = integer_tolerance;
    for (int v = 0; v < count; ++v) {
      double nearest = std::floor(point[v] + 0.5), distance = std::abs(point[v] - nearest);
      rounded_up[v] = std::clamp(static_cast<int>(std::ceil(point[v] - integer_tolerance)), node.low[v], node.high[v]);
      nearest_slots[v] = std::clamp(static_cast<int>(nearest), node.low[v], node.high[v]);
      if (distance > max_distance) fractional = v, max_distance = distance;
      if (node.low[v] < node.high[v]) undecided = v;
    }
    SlotCycle cycle_found = measure(rounded_up);
    if (meets_interval(cycle_found, interval_)) {
      accept(rounded_up);
      if (node.min_price() >= best_) return;
    } else if (add_row(cycle_found, rounded_up, point)) {
      continue;
    } else if (fractional < 0) {
      auto lower_bounds = alternatives(cycle_found, rounded_up);
      if (lower_bounds.size() != 1) return split(node, lower_bounds);
      rows_.push_back({{{lower_bounds[0].variable, 1}}, lower_bounds[0].slots + 1});
      continue;
    }
    if (fractional >= 0) {
      cycle_found = measure(nearest_slots);
      if (!meets_interval(cycle_found, interval_) && add_row(cycle_found, nearest_slots, point)) continue;
      return split_range(std::move(node), fractional);
    }
    if (undecided >= 0) split_range(std::move(node), undecided);  // the linear program was stopped before its optimum
    return;
  }
}

SlotSearch::Result SlotSearch::run(double interval, std::int64_t byte_limit, bool any_solution, std::int64_t steps) {
  Result out;
  out.bound = byte_limit;
  out.finished = byte_limit <= fixed_bytes_;
  if (out.finished) return out;
  interval_ = interval;
  any_solution_ = any_solution;
  steps_ = steps;
  best_ = (byte_limit - fixed_bytes_ - 1) / unit_ + 1;
  rows_.clear();
  found_ = false;
  open_nodes_.clear();
  raise_low();
  for (const SlowCycle& cycle : cycles_)
    if (CoverRow row = row_of(cycle); !row.terms.empty()) rows_.push_back(std::move(row));
  accept(high_);
  std::vector<double> prices(price_.begin(), price_.end());
  open_nodes_.push_back({low_, high_, CoverProgram(prices, low_), static_cast<double>(price_of(low_))});
  while (!open_nodes_.empty() && !is_done()) {
    base::check_interrupt();
    Node node = std::move(open_nodes_.back());
    open_nodes_.pop_back();
    if (node.min_price() < best_) explore(std::move(node));
  }
  out.finished = open_nodes_.empty();
  out.found = found_;
  if (found_) {
    out.slots = all_slots(best_slots_);
    out.bytes = out.bound = fixed_bytes_ + unit_ * best_;
  }
  for (const Node& node : open_nodes_)
    if (node.min_price() < best_) out.bound = std::min(out.bound, fixed_bytes_ + unit_ * node.min_price());
  return out;
}

}  // namespace karez::solve
