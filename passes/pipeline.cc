// The pipeline: the only order of passes, with its reasons.
#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>

#include "base/glob.h"
#include "base/near.h"
#include "base/text.h"
#include "passes/box.h"
#include "passes/canonicalise.h"
#include "passes/emit.h"
#include "passes/fuse/fuse.h"
#include "passes/in_place.h"
#include "passes/localise.h"
#include "passes/memory.h"
#include "passes/order.h"
#include "passes/segment.h"
#include "passes/shard.h"
#include "passes/slots.h"

namespace karez::passes {
namespace {

void canonicalise_pass(Compilation& c) { c.graph = canonicalise(std::move(c.graph), {c.ops, c.evaluate, c.options.fold_bytes}).graph; }

constexpr Pass passes[] = {
    {"canonicalise", canonicalise_pass, true},  // first: what is gone need not be placed
    {"shard", shard, false},
    {"box", box, false},                 // after shard: boxes stand where neighbours disagree
    {"order", order, false},             // after box: transfers are nodes to be ordered like any other
    {"segment", segment, false},         // after order: actors are intervals of it
    {"slots", slots, false},             // after segment: registers are what crosses segments
    {"localise", localise_pass, false},  // from here on one rank and its devices
    {"fuse", fuse, true},                // after localise: kernels are known, actors are cut
    {"in_place", in_place, true},        // after fuse: it looks at the calls that are left
    {"memory", memory, false},           // after in_place: what shares bytes needs one place
    {"emit", emit, false},
};

// What a pass made, as text: the graph until there are local segments, then the plan.
std::string text_of(const Compilation& c, std::string_view pass) { return pass == "emit" ? print(c.plan) : print(c.graph); }

}  // namespace

std::span<const Pass> pipeline() { return passes; }

void compile(Compilation& c) {
  for (const std::string& name : c.options.off) {
    auto at = std::find_if(std::begin(passes), std::end(passes), [&](const Pass& pass) { return name == pass.name; });
    if (at == std::end(passes))
      fail(ErrorKind::name, "no pass is called '", name, "'; ", near_names(name, passes, [](const Pass& p) { return p.name; }));
    require(at->may_be_off, "the pass '", name, "' cannot be switched off");
  }
  verify(c.graph);
  c.passes.clear();
  for (const Pass& pass : passes) {
    if (std::find(c.options.off.begin(), c.options.off.end(), pass.name) != c.options.off.end()) continue;
    auto begin = std::chrono::steady_clock::now();
    pass.run(c);
    verify(c.graph);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    c.passes.push_back({pass.name, seconds, c.options.keep_text ? text_of(c, pass.name) : std::string()});
  }
}

void apply_rules(Graph& graph, std::span<const LayoutRule> rules) {
  for (const LayoutRule& rule : rules) {
    bool any = false;
    const Glob pattern(rule.pattern);
    for (Variable& variable : graph.variables) {
      if (!pattern.matches(variable.name)) continue;
      any = true;
      const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
      require(ErrorKind::layout, rule.axes.size() <= variable.type.shape.size(), "rule '", rule.pattern, "' names ", rule.axes.size(),
              " dimensions, but ", variable.name, " is ", variable.type);
      Layout layout = broadcast_layout(mesh);
      for (std::size_t d = 0; d < rule.axes.size(); ++d) {
        if (rule.axes[d].empty()) continue;
        for (const std::string& name : split(rule.axes[d], '+')) {
          Sbp& entry = layout[static_cast<std::size_t>(mesh.axis(name))];
          require(ErrorKind::layout, entry.is_broadcast(), "rule '", rule.pattern, "' splits two dimensions of ", variable.name,
                  " on the mesh axis '", name, "'");
          entry = S(static_cast<int>(d));
        }
      }
      require(ErrorKind::layout, !variable.stored || *variable.stored == layout, "rule '", rule.pattern, "' wants ", variable.name, " as ",
              print(variable.type, mesh, layout), ", but an earlier rule or compile stored it as ",
              variable.stored ? print(variable.type, mesh, *variable.stored) : std::string());
      variable.stored = layout;
    }
    if (!any)
      fail(ErrorKind::name, "rule '", rule.pattern, "' matches no parameter; ",
           near_names(rule.pattern, graph.variables, [](const Variable& v) { return v.name; }));
  }
}

}  // namespace karez::passes
