// Finds the calls that depend only on constants, moves them to the setup and marks their results as constants.
#include "karez/passes/lowering/hoist.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/base/text.h"

namespace karez::passes {
namespace {

constexpr std::int64_t free_workspace = 65536;  // bytes of workspace that every call may use, even for small results

class Hoister {
 public:
  Hoister(LocalProgram program, const Graph& graph, const KernelCatalog& catalog, std::int64_t max_bytes)
      : program_(std::move(program)),
        graph_(graph),
        catalog_(catalog),
        max_bytes_(max_bytes),
        writers_(program_.values.size(), 0),
        in_setup_(program_.values.size(), false),
        duplicate_of_(program_.values.size()) {
    for (const LocalSegment& segment : program_.segments) {
      for (const LocalCall& call : segment.calls)
        for (LocalId out : call.out) ++writers_[root(out)];
      for (LocalId out : segment.writes) ++writers_[root(out)];
    }
  }

  LocalProgram run() {
    for (LocalCall& call : std::exchange(program_.setup, {})) add_to_setup(std::move(call));
    for (LocalSegment& segment : program_.segments) {
      std::vector<LocalCall> launch_calls;
      for (LocalCall& call : segment.calls) {
        if (auto hoisted = setup_call(call)) {
          bytes_[segment.device] += result_bytes(call);
          add_to_setup(std::move(*hoisted));
        } else {
          launch_calls.push_back(std::move(call));
        }
      }
      segment.calls = std::move(launch_calls);
    }
    for (LocalId v : program_.values.ids()) {
      LocalValue& value = program_.values[v];
      if (duplicate_of_[value.root].valid()) value.root = duplicate_of_[value.root];
      if (!in_setup_[value.root]) continue;
      value.constant = true;
      value.segment = {};
    }
    return std::move(program_);
  }

 private:
  LocalId root(LocalId v) const { return program_.values[v].root; }

  std::int64_t result_bytes(const LocalCall& call) const {
    std::int64_t bytes = 0;
    for (LocalId out : call.out) bytes += program_.values[out].view.bytes();
    return bytes;
  }

  bool is_invariant(const LocalCall& call) const {
    if (!call.node.valid() || !call.acts.all() || call.in.empty()) return false;
    if (!std::all_of(call.in.begin(), call.in.end(), [&](LocalId in) { return in_setup_[root(in)]; })) return false;
    auto is_only_result = [&](LocalId out) {
      return root(out) == out && program_.values[out].variable < 0 && writers_[out] == 1;
    };
    if (!std::all_of(call.out.begin(), call.out.end(), is_only_result)) return false;
    if (call.spec.op == "copy") return call.spec.out[0].bytes() <= program_.values[root(call.in[0])].view.bytes();
    const OpDef& op = *graph_.node(call.node).op;
    return op.pure && op.role == Role::compute;
  }

  // Returns the call for the setup, which runs on one thread; nullopt if the call cannot move there.
  std::optional<LocalCall> setup_call(const LocalCall& call) {
    if (!is_invariant(call)) return {};
    const std::int64_t call_bytes = result_bytes(call);
    if (call_bytes > max_bytes_ - bytes_[program_.values[call.out[0]].device]) return {};
    LocalCall hoisted = call;
    hoisted.spec.team = 1;
    const auto choice = catalog_.find(hoisted.spec);
    if (!choice || !works_in_setup(choice->workspace, call_bytes)) return {};
    hoisted.kernel = choice->kernel;
    hoisted.workspace = choice->workspace;
    return hoisted;
  }

  void add_to_setup(LocalCall call) {
    for (LocalId out : call.out) in_setup_[out] = true;
    std::string key = cat(program_.values[call.out[0]].device, " ", print(call.spec));
    for (LocalId in : call.in) {
      const LocalId result = duplicate_of_[root(in)].valid() ? duplicate_of_[root(in)] : root(in);
      key += cat(" ", result, "+", program_.values[in].offset);
    }
    const auto [entry, inserted] = results_by_key_.try_emplace(std::move(key), call.out);
    if (inserted) {
      program_.setup.push_back(std::move(call));
      return;
    }
    for (std::size_t i = 0; i < call.out.size(); ++i) duplicate_of_[call.out[i]] = entry->second[i];
  }

  LocalProgram program_;
  const Graph& graph_;
  const KernelCatalog& catalog_;
  const std::int64_t max_bytes_;
  std::map<int, std::int64_t> bytes_;    // bytes of the results of moved calls, by device
  ById<LocalId, int> writers_;           // by root: the number of calls and transfers in launches that write it
  ById<LocalId, bool> in_setup_;         // by root: true if the setup computes it
  ById<LocalId, LocalId> duplicate_of_;  // by root: the equal root that replaces it, if any
  std::map<std::string, std::vector<LocalId>> results_by_key_;
};

}  // namespace

bool works_in_setup(std::int64_t workspace, std::int64_t result_bytes) {
  return workspace <= std::max(result_bytes, free_workspace);
}

LocalProgram hoist(LocalProgram program, const Graph& graph, const KernelCatalog& catalog, std::int64_t max_bytes) {
  return Hoister(std::move(program), graph, catalog, max_bytes).run();
}

}  // namespace karez::passes
