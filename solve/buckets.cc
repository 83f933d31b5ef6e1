// Planning, filling and searching of buckets.
#include "solve/buckets.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "solve/join.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

double cells(std::span<const int> sizes, std::span<const int> scope) {
  double product = 1;
  for (int v : scope) product *= sizes[v];
  return product;
}

// The cells of an input of a bucket and its scope.
struct Cells {
  std::span<const double> values;
  std::span<const int> scope;
};
Cells cells_of(const CostGraph& graph, const Buckets& buckets, int input) {
  int tables = static_cast<int>(graph.tables.size());
  if (input < tables) return {graph.tables[input].cells(), graph.tables[input].scope};
  const Message& message = buckets.messages[input - tables];
  return {message.cells, message.scope};
}

// Looks up, for one variable, the costs of its states when the variables eliminated after it are chosen.
class Row {
 public:
  Row(const CostGraph& graph, const Buckets& buckets, int variable) : variable_(variable), unary_(graph.unary[variable]) {
    for (int input : buckets.inputs[variable]) add(graph, cells_of(graph, buckets, input), inputs_);
    for (int made : buckets.made[variable]) add(graph, cells_of(graph, buckets, made), made_);
  }

  void costs(std::span<const int> choice, std::vector<double>& out) const {
    out = unary_;
    for (const Part& part : inputs_) {
      const double* at = part.values + offset(part, choice);
      for (std::size_t s = 0; s < out.size(); ++s) out[s] += at[s * part.step];
    }
  }

  // What the messages promised for this variable; `costs` never is less.
  double promise(std::span<const int> choice) const {
    double sum = 0;
    for (const Part& part : made_) sum += part.values[offset(part, choice)];
    return sum;
  }

 private:
  struct Part {
    const double* values;
    std::size_t step = 0;  // of the variable itself
    std::vector<std::pair<int, std::size_t>> others;
  };

  void add(const CostGraph& graph, Cells cells, std::vector<Part>& parts) const {
    Part part{.values = cells.values.data(), .step = 0, .others = {}};
    std::vector<std::size_t> stride = strides_of(graph, cells.scope);
    for (std::size_t a = 0; a < stride.size(); ++a) {
      if (cells.scope[a] == variable_) part.step = stride[a];
      else part.others.emplace_back(cells.scope[a], stride[a]);
    }
    parts.push_back(part);
  }

  static std::size_t offset(const Part& part, std::span<const int> choice) {
    std::size_t at = 0;
    for (auto [v, stride] : part.others) at += choice[v] * stride;
    return at;
  }

  int variable_;
  const std::vector<double>& unary_;
  std::vector<Part> inputs_, made_;
};

class Search {
 public:
  Search(const CostGraph& graph, const Buckets& buckets, std::vector<int>& best, double cost, double slack, long steps)
      : order_(buckets.order),
        best_(best),
        choice_(best),
        cost_(cost),
        slack_(slack),
        limit_(steps) {
    for (int v : order_) rows_.emplace_back(graph, buckets, v);
    costs_.resize(order_.size());
    sorted_.resize(order_.size());
  }

  SearchResult run(double bound) {
    choice_.resize(best_.size());
    bool finished = open(order_.size(), bound);
    return {finished, cost_, steps_};
  }

 private:
  // Everything above `depth` is chosen and `bound` is what the whole must cost. False: out of steps.
  bool open(std::size_t depth, double bound) {
    if (depth == 0) {
      cost_ = bound;
      best_ = choice_;
      return true;
    }
    if (steps_ == limit_) return false;
    ++steps_;
    --depth;
    auto& costs = costs_[depth];
    auto& sorted = sorted_[depth];
    rows_[depth].costs(choice_, costs);
    double rest = bound - rows_[depth].promise(choice_);
    sorted.resize(costs.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::sort(sorted.begin(), sorted.end(), [&](int a, int b) { return costs[a] != costs[b] ? costs[a] < costs[b] : a < b; });
    for (int s : sorted) {
      double next = rest + costs[s];
      if (!(next < cost_ - (cost_ < inf ? slack_ : 0))) break;
      choice_[order_[depth]] = s;
      if (!open(depth, next)) return false;
    }
    return true;
  }

  const std::vector<int>& order_;
  std::vector<int>& best_;
  std::vector<int> choice_;
  double cost_, slack_;
  long limit_, steps_ = 0;
  std::vector<Row> rows_;
  std::vector<std::vector<double>> costs_;
  std::vector<std::vector<int>> sorted_;
};
}  // namespace

Buckets plan_buckets(std::span<const int> sizes, const Scopes& scopes, std::vector<int> order, double cap) {
  Buckets plan;
  plan.inputs.resize(sizes.size());
  plan.made.resize(sizes.size());
  std::vector<int> when(sizes.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) when[order[i]] = static_cast<int>(i);
  auto first_to_go = [&](const std::vector<int>& scope) {
    return *std::min_element(scope.begin(), scope.end(), [&](int a, int b) { return when[a] < when[b]; });
  };
  Scopes all = scopes;  // of tables, then of messages
  for (std::size_t t = 0; t < scopes.size(); ++t)
    if (!scopes[t].empty() && when[scopes[t][0]] >= 0) plan.inputs[first_to_go(scopes[t])].push_back(static_cast<int>(t));
  for (int v : order) {
    // First fit, large inputs first, so that small ones find a message that covers them.
    std::vector<int> inputs = plan.inputs[v];
    std::stable_sort(inputs.begin(), inputs.end(), [&](int a, int b) { return cells(sizes, all[a]) > cells(sizes, all[b]); });
    std::vector<Message> made;
    for (int input : inputs) {
      bool placed = false;
      for (std::size_t m = 0; m <= made.size() && !placed; ++m) {
        std::vector<int> joint = m < made.size() ? made[m].scope : std::vector<int>{};
        for (int w : all[input])
          if (w != v && std::find(joint.begin(), joint.end(), w) == joint.end()) joint.push_back(w);
        if (m < made.size() && cells(sizes, joint) > cap && joint.size() > made[m].scope.size()) continue;
        if (m == made.size()) made.push_back({.variable = v, .inputs = {}, .scope = {}, .cells = {}});
        made[m].scope = std::move(joint);
        made[m].inputs.push_back(input);
        placed = true;
      }
    }
    if (made.empty()) made.push_back({.variable = v, .inputs = {}, .scope = {}, .cells = {}});  // a variable alone
    plan.exact &= made.size() == 1 && cells(sizes, made[0].scope) <= cap;
    for (Message& message : made) {
      std::sort(message.scope.begin(), message.scope.end(), [&](int a, int b) { return when[a] > when[b]; });
      int id = static_cast<int>(scopes.size() + plan.messages.size());
      double size = cells(sizes, message.scope);
      plan.stored += size;
      plan.work += size * sizes[v];
      plan.widest = std::max(plan.widest, size);
      plan.made[v].push_back(id);
      if (!message.scope.empty()) plan.inputs[first_to_go(message.scope)].push_back(id);
      all.push_back(message.scope);
      plan.messages.push_back(std::move(message));
    }
  }
  plan.order = std::move(order);
  return plan;
}

Buckets plan_within(std::span<const int> sizes, const Scopes& scopes, std::vector<int> order, std::size_t table_cells) {
  double most = static_cast<double>(table_cells);
  for (double cap = most;; cap /= 4) {
    Buckets plan = plan_buckets(sizes, scopes, order, cap);
    if ((plan.stored <= 4 * most && plan.work <= 128 * most) || cap < 1) return plan;  // below 1 no two tables are joined
  }
}

double fill(const CostGraph& graph, Buckets& plan) {
  double bound = 0;
  for (Message& message : plan.messages) {
    int v = message.variable;
    Join join(graph, v, message.scope);
    // A variable's own costs go to the first of its messages.
    bool first = plan.made[v][0] == static_cast<int>(graph.tables.size() + (&message - plan.messages.data()));
    if (first) join.add_unary(graph.unary[v]);
    for (int input : message.inputs) {
      Cells cells = cells_of(graph, plan, input);
      join.add(cells.values, cells.scope);
    }
    message.cells = join.minimise();
    if (message.scope.empty()) bound += message.cells[0];
  }
  return bound;
}

void read_choice(const CostGraph& graph, const Buckets& plan, std::vector<int>& choice) {
  std::vector<double> costs;
  for (std::size_t i = plan.order.size(); i-- > 0;) {
    int v = plan.order[i];
    Row(graph, plan, v).costs(choice, costs);
    choice[v] = static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
}

SearchResult search(const CostGraph& graph, const Buckets& plan, std::vector<int>& choice, double cost, double slack, long steps) {
  double bound = 0;
  for (const Message& message : plan.messages)
    if (message.scope.empty()) bound += message.cells[0];
  if (!(bound < cost - (cost < inf ? slack : 0))) return {true, cost, 0};
  return Search(graph, plan, choice, cost, slack, steps).run(bound);
}

}  // namespace karez::solve
