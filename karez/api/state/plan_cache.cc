// Implements PlanCache: writes the result of a compilation as text, and reads this text.
#include "karez/api/state/plan_cache.h"
#include "karez/api/namespace.h"

#include <chrono>
#include <utility>

#include "karez/api/state/build_id.h"
#include "karez/base/log.h"
#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/passes/compile.h"

namespace karez {
namespace {

constexpr std::size_t min_nodes = 16;  // planning a program with fewer nodes takes no longer than reading its plan

std::string build_with_libraries() {
  const std::string id = build_id();
  if (id.empty()) note(LogLevel::info, "plans are not cached: the program was linked without -Wl,--build-id");
  return id.empty() ? id : cat(id, "\n", library_versions());
}

// Formats a result. The first line contains the lengths of graph and plan; the graph and the plan follow it.
std::string format_result(const Compilation& c) {
  const std::string graph = print(c.graph), plan = print(c.plan);
  return cat("cost ", number(c.cost), " bound ", number(c.cost_bound), c.optimal ? " optimal" : " open", " report ",
             quote(c.shard_report), " limited ", quote(c.slot_assignment.memory_note), " graph ", graph.size(),
             " plan ", plan.size(), "\n", graph, plan);
}

double read_real(Scanner& in, std::string_view word) {
  in.expect(word);
  bool integer = false;
  return in.number(integer);
}

std::string read_quoted(Scanner& in, std::string_view word) {
  in.expect(word);
  return in.quoted();
}

std::size_t read_length(Scanner& in, std::string_view word, std::size_t max) {
  in.expect(word);
  const std::int64_t value = in.integer();
  if (value < 0 || static_cast<std::size_t>(value) > max) in.fail_here(cat(value, " is out of range"));
  return static_cast<std::size_t>(value);
}

void parse_result(Compilation& c, std::string_view text) {
  const std::size_t line = text.find('\n');
  require(ErrorKind::data, line != text.npos, "its first line has no end");
  const std::string_view rest = text.substr(line + 1);
  Scanner in(text.substr(0, line), "cached plan");
  const double cost = read_real(in, "cost"), bound = read_real(in, "bound");
  const bool optimal = in.accept("optimal");
  if (!optimal) in.expect("open");
  std::string report = read_quoted(in, "report"), memory_note = read_quoted(in, "limited");
  const std::size_t graph_length = read_length(in, "graph", rest.size()),
                    plan_length = read_length(in, "plan", rest.size() - graph_length);
  require(ErrorKind::data, in.at_end() && graph_length + plan_length == rest.size(),
          "its length does not match the lengths in its first line");
  Graph graph = parse_graph(rest.substr(0, graph_length), *c.ops);
  verify(graph);
  Plan plan = parse_plan(rest.substr(graph_length));
  verify(plan);
  c.graph = std::move(graph), c.plan = std::move(plan);
  c.cost = cost, c.cost_bound = bound, c.optimal = optimal;
  c.shard_report = std::move(report), c.slot_assignment.memory_note = std::move(memory_note);
}

}  // namespace

std::string key_of(const std::string& build, const Compilation& c) {
  const auto& [costs, rank, world, team, workers, slots, microbatches, batch, memory, data_bytes, fold_bytes, amp,
               remat, reassociate, off, check_nan, predict, keep_text] = c.options;
  auto list = [](const std::vector<std::string>& words) { return join(words, " ", quote); };
  return cat(build, "rank ", rank, " of ", world, " team ", team, " workers ", workers, " slots ", slots,
             " microbatches ", microbatches, " of ", batch, " memory ", memory, " without ", data_bytes, " fold ",
             fold_bytes, amp ? cat(" amp ", *amp) : "", " remat ", list(remat), reassociate ? " reassociate" : "",
             " off ", list(off), check_nan ? " checks for NaN" : "", predict ? "" : " without a prediction",
             keep_text ? " with texts" : "", "\n", costs.print(), "\n", print(c.graph));
}

PlanCache::PlanCache(std::string folder, bool has_user_rows)
    : folder_(has_user_rows ? std::string() : std::move(folder)),
      build_(folder_.open() ? build_with_libraries() : std::string()) {}

bool PlanCache::read(Compilation& c, const std::string& key) {
  const auto begin = std::chrono::steady_clock::now();
  const auto text = folder_.find(key);
  if (!text) return false;
  try {
    parse_result(c, *text);
  } catch (const Error& error) {
    folder_.warn(key, cat("cannot be read: ", error.what()));
    return false;
  }
  c.passes = {{"cache", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), {}}};
  return true;
}

bool PlanCache::may_cache(const Compilation& c) const {
  return !build_.empty() && !c.options.keep_text && c.graph.nodes.size() >= min_nodes;
}

void PlanCache::choose_layouts(Compilation& c) {
  if (!may_cache(c)) return passes::choose_layouts(c);
  const std::string key = cat("layouts\n", key_of(build_, c));
  if (const auto text = folder_.find(key)) try {
      Graph graph = parse_graph(*text, *c.ops);
      verify(graph);
      c.graph = std::move(graph);
      return;
    } catch (const Error& error) { folder_.warn(key, cat("cannot be read: ", error.what())); }
  passes::choose_layouts(c);
  folder_.store(key, print(c.graph));
}

void PlanCache::compile(Compilation& c) {
  if (!may_cache(c)) return passes::compile(c);
  const std::string key = key_of(build_, c);
  if (read(c, key)) return;
  passes::compile(c);
  folder_.store(key, format_result(c));
}

}  // namespace karez
