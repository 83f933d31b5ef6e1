// Branch and bound for the cheapest slots.
#include "karez/solve/slot_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "karez/base/error.h"
#include "karez/base/interrupt.h"

namespace karez::solve {
namespace {
using WaitKind = SlotCycle::WaitKind;

constexpr double whole = 1e-6;                    // tolerance within which a value counts as an integer
constexpr std::int64_t largest_unit = 1'000'000;  // rows with larger factors are omitted
}  // namespace

bool meets_interval(const SlotCycle& cycle, double interval) {
  return !cycle.is_deadlock() && cycle.interval <= interval * (1 + 1e-9);
}

SlotSearch::SlotSearch(const SlotProblem& problem, const ActGraph& graph, std::vector<int> least, std::vector<int> most)
    : problem_(problem),
      graph_(graph),
      max_(std::move(most)),
      variable_of_(max_.size(), -1) {
  for (int r = 0; r < static_cast<int>(max_.size()); ++r) {
    std::int64_t bytes = problem.registers[r].bytes;
    if (bytes == 0) continue;
    if (least[r] == max_[r]) {
      fixed_bytes_ += bytes * max_[r];
      continue;
    }
    variable_of_[r] = static_cast<int>(register_of_.size());
    register_of_.push_back(r);
    min_.push_back(least[r]);
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
    if (sum < row.least) return true;
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
    auto at = std::find_if(out.parts.begin(), out.parts.end(), [&](const auto& part) { return part.variable == v; });
    if (at == out.parts.end()) at = out.parts.insert(at, {v, x[v], 0, 1});
    ++at->times;
  }
  for (auto& part : out.parts) part.unit = graph_.pieces(register_of_[part.variable]) / out.symmetry;
  return out;
}

// u = ceil((x - had) / unit) <= (x - had + unit - 1) / unit, and the sum of times * u is an integer.
CoverRow SlotSearch::row_of(const SlowCycle& cycle) const {
  CoverRow row;
  double needs = interval_ > 0 ? static_cast<double>(cycle.symmetry) * cycle.seconds / (interval_ * (1 + 1e-9)) : 0;
  needs = std::max(
      1.0, std::ceil(needs * (1 - 1e-12)));  // tokens, in units of 1 / symmetry; with none the cycle is a deadlock
  std::int64_t steps = static_cast<std::int64_t>(needs) - cycle.symmetry * cycle.tokens;
  std::int64_t all = 1;
  for (const auto& part : cycle.parts) {
    all = std::lcm(all, part.unit);
    if (all > largest_unit) return row;
  }
  row.least = checked_mul(all, steps);
  for (const auto& part : cycle.parts) {
    std::int64_t factor = part.times * (all / part.unit);
    row.terms.emplace_back(part.variable, factor);
    row.least += factor * (part.had - part.unit + 1);
  }
  tighten(row);
  return row;
}

// Changes that keep all integer solutions x >= low_: limits each factor to what the row still needs, and divides by the
// common divisor of all factors.
void SlotSearch::tighten(CoverRow& row) const {
  std::int64_t needs = row.least, divisor = 0;
  for (auto [v, factor] : row.terms) needs -= factor * low_[v];
  if (needs <= 0) return;
  for (auto& [v, factor] : row.terms) {
    row.least -= (factor - std::min(factor, needs)) * low_[v];
    factor = std::min(factor, needs);
    divisor = std::gcd(divisor, factor);
  }
  for (auto& term : row.terms) term.second /= divisor;
  row.least = ceil_div(row.least, divisor);
}

// Adds the cycle's row if it excludes `point`. Returns whether it does.
bool SlotSearch::learn(const SlotCycle& why, const Slots& x, std::span<const double> point) {
  SlowCycle cycle = slow_cycle(why, x);
  CoverRow row = row_of(cycle);
  auto lacks = static_cast<double>(row.least);
  for (auto [v, factor] : row.terms) lacks -= static_cast<double>(factor) * point[v];
  if (row.terms.empty() || lacks < whole) return false;
  rows_.push_back(std::move(row));
  cycles_.push_back(std::move(cycle));
  return true;
}

// For a slow x: one of these registers needs more than its count here. With these counts, and all others at their most,
// the program is still too slow.
std::vector<SlotSearch::SlotLowerBound> SlotSearch::alternatives(const SlotCycle& why, const Slots& x) {
  Slots slow = high_;
  SlowCycle cycle = slow_cycle(why, x);
  for (const auto& part : cycle.parts) slow[part.variable] = x[part.variable];
  std::vector<SlotLowerBound> out;
  for (const auto& part : cycle.parts) {
    int& mine = slow[part.variable];
    auto enough = [&](int slots) {
      mine = slots;
      return !is_slow(slow);
    };
    mine = fewest(mine + 1, high_[part.variable] + 1, enough) - 1;
    if (mine < high_[part.variable]) out.push_back({part.variable, mine});
  }
  return out;
}

// Lowers x, the most expensive registers first, and keeps it if it is the cheapest so far.
void SlotSearch::offer(Slots x) {
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

// Earlier calls limit the result: a longer interval gives a lower bound, a shorter one an upper bound.
void SlotSearch::raise_least() {
  auto longer = raised_.lower_bound(interval_);
  const Slots from = longer == raised_.end() ? min_ : longer->second,
              to = longer == raised_.begin() ? high_ : std::prev(longer)->second;
  Slots x = high_;
  low_ = from;
  std::vector<int> all(low_.size());
  std::iota(all.begin(), all.end(), 0);
  raise(all, from, to, x);
  raised_[interval_] = low_;
}

// Counts that are enough together are also enough for each variable alone if all others have their most.
void SlotSearch::raise(std::span<const int> which, const Slots& from, const Slots& to, Slots& x) {
  if (which.size() == 1) {
    const int v = which[0];
    auto enough = [&](int slots) {
      x[v] = slots;
      return !is_slow(x);
    };
    low_[v] = fewest(from[v], to[v], enough);
  } else if (!which.empty()) {
    for (int v : which) x[v] = from[v];
    const bool enough = !is_slow(x);
    for (int v : which) x[v] = high_[v];
    if (enough) return;
    raise(which.first(which.size() / 2), from, to, x);
    raise(which.subspan(which.size() / 2), from, to, x);
    return;
  }
  for (int v : which) x[v] = high_[v];
}

std::int64_t SlotSearch::Node::min_price() const {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return bound < static_cast<double>(most) ? static_cast<std::int64_t>(std::ceil(bound)) : most;
}

// At least one variable must exceed its lower bound: makes a child for the first that does, the second, ...
void SlotSearch::split(const Node& node, std::span<const SlotLowerBound> lower_bounds) {
  Node rest = node;
  std::vector<Node> children;
  for (auto [v, slots] : lower_bounds) {
    if (slots < rest.high[v]) {
      children.push_back(rest);
      children.back().low[v] = std::max(rest.low[v], slots + 1);
    }
    if (slots < rest.low[v]) break;
    rest.high[v] = std::min(rest.high[v], slots);
  }
  for (std::size_t i = children.size(); i-- > 0;) open_.push_back(std::move(children[i]));
}

void SlotSearch::halve(Node node, int v) {
  double value = node.program.values()[v];
  Node higher = node;
  node.high[v] = std::clamp(static_cast<int>(std::floor(value)), node.low[v], node.high[v] - 1);
  higher.low[v] = node.high[v] + 1;
  if (value - std::floor(value) > 0.5) std::swap(node, higher);
  open_.push_back(std::move(higher));
  open_.push_back(std::move(node));  // the half nearer to the value is explored first
}

void SlotSearch::explore(Node node) {
  const auto count = static_cast<int>(low_.size());
  for (;;) {
    base::check_interrupt();
    if (stops()) {
      open_.push_back(std::move(node));
      return;
    }
    --steps_;
    node.program.solve(rows_, node.low, node.high, 1000 + 50 * count);
    node.bound = std::max(node.bound, node.program.bound(rows_, node.low, node.high));
    if (node.min_price() >= best_) return;

    auto point = node.program.values();
    Slots up(count), near(count);
    int between = -1, open = -1;  // the variable farthest from an integer; one that still has a choice
    double farthest = whole;
    for (int v = 0; v < count; ++v) {
      double nearest = std::floor(point[v] + 0.5), away = std::abs(point[v] - nearest);
      up[v] = std::clamp(static_cast<int>(std::ceil(point[v] - whole)), node.low[v], node.high[v]);
      near[v] = std::clamp(static_cast<int>(nearest), node.low[v], node.high[v]);
      if (away > farthest) between = v, farthest = away;
      if (node.low[v] < node.high[v]) open = v;
    }
    SlotCycle why = measure(up);
    if (meets_interval(why, interval_)) {
      offer(up);
      if (node.min_price() >= best_) return;
    } else if (learn(why, up, point)) {
      continue;
    } else if (between < 0) {
      auto lower_bounds = alternatives(why, up);
      if (lower_bounds.size() != 1) return split(node, lower_bounds);
      rows_.push_back({{{lower_bounds[0].variable, 1}}, lower_bounds[0].slots + 1});
      continue;
    }
    if (between >= 0) {
      why = measure(near);
      if (!meets_interval(why, interval_) && learn(why, near, point)) continue;
      return halve(std::move(node), between);
    }
    if (open >= 0) halve(std::move(node), open);  // the linear program was stopped before its optimum
    return;
  }
}

SlotSearch::Result SlotSearch::run(double interval, std::int64_t below, bool any, std::int64_t steps) {
  Result out;
  out.bound = below;
  out.finished = below <= fixed_bytes_;
  if (out.finished) return out;
  interval_ = interval;
  any_ = any;
  steps_ = steps;
  best_ = (below - fixed_bytes_ - 1) / unit_ + 1;
  rows_.clear();
  found_ = false;
  open_.clear();
  raise_least();
  for (const SlowCycle& cycle : cycles_)
    if (CoverRow row = row_of(cycle); !row.terms.empty()) rows_.push_back(std::move(row));
  offer(high_);
  std::vector<double> prices(price_.begin(), price_.end());
  open_.push_back({low_, high_, CoverProgram(prices, low_), static_cast<double>(price_of(low_))});
  while (!open_.empty() && !stops()) {
    base::check_interrupt();
    Node node = std::move(open_.back());
    open_.pop_back();
    if (node.min_price() < best_) explore(std::move(node));
  }
  out.finished = open_.empty();
  out.found = found_;
  if (found_) {
    out.slots = all_slots(best_slots_);
    out.bytes = out.bound = fixed_bytes_ + unit_ * best_;
  }
  for (const Node& node : open_)
    if (node.min_price() < best_) out.bound = std::min(out.bound, fixed_bytes_ + unit_ * node.min_price());
  return out;
}

}  // namespace karez::solve
