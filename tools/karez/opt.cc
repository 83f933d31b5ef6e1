// karez opt: reads the text of a graph, runs the named passes and prints the text of the graph, or of the plan after
// emit.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "karez/api/trace/evaluator.h"
#include "karez/base/text.h"
#include "karez/ops/all_ops.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/memory_limit/fit_memory.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/rewrite.h"
#include "karez/passes/sharding/explain.h"
#include "karez/report/predictor.h"
#include "karez/report/table.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file, costs, remat, mesh, explain, passes = "unroll,canonicalise,shard,box,order";
  std::int64_t team = 1, workers = 1, slots = 2, memory = 0;
  bool each = false;
};

// A pass, and a pass that it needs in the same run, because it reads data of that pass which the graph's text does not
// contain.
struct PassDependency {
  std::string_view pass, needs;
};
constexpr PassDependency pass_dependencies[] = {{"box", "shard"},      {"order", "box"},         {"segment", "order"},
                                                {"anchor", "segment"}, {"slots", "segment"},     {"layout", "box"},
                                                {"localise", "slots"}, {"hoist", "localise"},    {"fuse", "localise"},
                                                {"teams", "localise"}, {"in_place", "localise"}, {"emit", "localise"},
                                                {"memory", "emit"}};

std::vector<std::string> passes_of(const std::string& text) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const Pass& pass : pipeline()) names.emplace_back(pass.name);
    return names;
  }
  auto position_of = [](std::string_view name) { return &pass_named(name) - pipeline().data(); };
  for (const std::string& part : split(text, ',')) {
    const std::string name(trim(part));
    require(!name.empty(), "--passes '", text, "': a name is empty");
    const auto position = position_of(name);
    if (!names.empty() && position_of(names.back()) >= position)
      fail("--passes '", text, "': ", name, " comes before ", names.empty() ? "" : names.back(),
           " in the pipeline; the only order is ", join(pipeline(), ", ", [](const Pass& pass) { return pass.name; }));
    for (const PassDependency& row : pass_dependencies)
      require(row.pass != name || std::find(names.begin(), names.end(), row.needs) != names.end(), "--passes '", text,
              "': ", name, " needs data that ", row.needs, " keeps outside of the graph; add ", row.needs);
    names.push_back(name);
  }
  return names;
}

// Returns the text of the graph or, from `emit` on, the text of the plan.
std::string result_text(const Compilation& c, std::string_view pass) {
  if (pass_named(pass).result != PassResult::plan) return print(c.graph);
  Plan plan = c.plan;
  plan.costs = c.options.costs.print();
  return print(plan);
}

// Returns the text after a pass. Its first line is a comment, so that the text can be parsed as a graph.
std::string after_text(const Compilation& c, const std::string& pass, double seconds) {
  std::string out = cat("# after ", pass, ", ", fixed(seconds * 1e3, 3), " ms");
  if (pass == "shard")
    out += cat(": calls and transfers of ", microseconds(c.cost), " us a launch, predicted",
               default_costs_warning(c.options.costs), "; ", c.shard_report);
  return out + "\n" + result_text(c, pass);
}

// Renumbers values without gaps, as passes require; a text written by hand may skip numbers.
Graph without_gaps(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId node : graph.nodes.ids()) rewrite.keep(node);
  return rewrite.finish();
}

// Moves the program to another mesh; layouts that were fixed on the old mesh are no longer fixed.
void replace_mesh(Graph& graph, const std::string& mesh) {
  require(graph.meshes.size() == 1, "--mesh: this program is on ", graph.meshes.size(),
          " meshes; only one can be replaced");
  graph.meshes[0] = Mesh::parse(mesh);
  for (ValueId value : graph.values.ids()) graph.value(value).layout.reset();
  for (Variable& variable : graph.variables) variable.stored.reset();
  for (Output& output : graph.outputs) output.layout.reset();
}

int run(const Options& options) {
  for (const auto& [name, value, max] : {std::tuple{"--team", options.team, 1024},
                                         {"--workers", options.workers, 4096},
                                         {"--slots", options.slots, 1024}})
    require(value >= 1 && value <= max, name, " must be 1 to ", max, ", got ", value);
  require(options.memory >= 0, "--memory must be at least 0 bytes, got ", options.memory);
  require(options.memory == 0 || options.passes == "all" || !options.explain.empty(),
          "--memory needs --passes all, got '", options.passes, "'");
  const auto names = passes_of(options.passes);
  const OpTable ops = all_ops();
  const KernelTable kernels(cpu_kernels());
  Compilation c;
  c.graph = without_gaps(verified_graph(options.file, ops));
  for (NodeId node : c.graph.nodes.ids())
    if (c.graph.nodes[node].op->role == Role::transition &&
        std::find(names.begin(), names.end(), "shard") != names.end())
      fail(options.file, ": ", describe(c.graph, node),
           " is a change of layout that box has inserted; shard must run before box");
  if (!options.mesh.empty()) replace_mesh(c.graph, options.mesh);
  c.ops = &ops;
  c.catalog = &kernels;
  c.evaluate = make_evaluator(std::make_shared<const KernelTable>(plain_kernels()));
  c.options.costs = read_costs(options.costs, static_cast<int>(options.team));
  c.options.team = static_cast<int>(options.team);
  c.options.workers = static_cast<int>(options.workers);
  c.options.slots = static_cast<int>(options.slots);
  c.options.memory = options.memory;
  for (const auto& glob : split(options.remat, ' '))
    if (!glob.empty()) c.options.remat.emplace_back(glob);
  require(c.options.remat.empty() || std::find(names.begin(), names.end(), "recompute") != names.end(), "--remat '",
          options.remat, "' needs the recompute pass, which is not in --passes '", options.passes, "'");
  check_remat(c.graph, c.options.remat);
  if (!options.explain.empty()) {
    std::fputs(print(explain_layout(std::move(c), options.explain)).c_str(), stdout);
    return 0;
  }
  for (const std::string& name : names) {
    const auto begin = std::chrono::steady_clock::now();
    run_passes(c, {name});
    verify(c.graph);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (options.each) std::fputs(after_text(c, name, seconds).c_str(), stdout);
  }
  if (options.memory > 0) fit_memory(c);
  if (!options.each || options.memory > 0) std::fputs(result_text(c, names.back()).c_str(), stdout);
  return 0;
}

std::string passes_help() {
  std::string out = "The passes in order: ";
  out += join(pipeline(), ", ", [](const Pass& pass) { return pass.name; });
  out += ". Some data of passes is not in the graph's text, so ";
  out += join(pass_dependencies, ", ", [](const PassDependency& row) { return cat(row.pass, " needs ", row.needs); });
  return out + " in the same run; canonicalise and shard need no other pass. Before emit, the graph is printed.";
}

}  // namespace

Command opt_command() {
  auto o = std::make_shared<Options>();
  return {
      "opt",
      cat("Rewrites a graph's text with passes of the compiler; from emit on, prints the plan of rank 0.\n",
          passes_help()),
      {{"FILE", "a graph's text; -: standard input", &o->file},
       {"--passes", "names separated by commas, or all", &o->passes},
       {"--each", "print the text after each pass, after a comment with its name and time", &o->each},
       {"--mesh", "a mesh (data=2,model=2) that replaces the mesh in the text; fixed layouts are dropped", &o->mesh},
       {"--explain",
        "a variable, input, output, module or %7: print the cost of each of its layouts instead of running passes",
        &o->explain},
       {"--costs", "file of a cost table (default: built-in costs)", &o->costs},
       {"--remat", "globs, separated by spaces, of modules whose values are recomputed for gradients", &o->remat},
       {"--team", "threads of one kernel call", &o->team},
       {"--workers", "threads that serve the rank's streams", &o->workers},
       {"--slots", "maximum number of slots of a register between streams", &o->slots},
       {"--memory", "maximum number of bytes that the plan may use on each device, for --passes all; 0: no limit",
        &o->memory}},
      [o] { return run(*o); },
      {}};
}

}  // namespace karez::tools
