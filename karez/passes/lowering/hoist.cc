// hoist: finds the calls that depend only on constants, moves them to the set-up and marks their results as constants.
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

constexpr std::int64_t free_workspace = 65536;  // bytes of workspace that are allowed for any size of the results

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
      std::vector<LocalCall> left;
      for (LocalCall& call : segment.calls) {
        if (auto once = setup_call(call)) {
          bytes_[segment.device] += result_bytes(call);
          add_to_setup(std::move(*once));
        } else {
          left.push_back(std::move(call));
        }
      }
      segment.calls = std::move(left);
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
    auto alone = [&](LocalId out) {
      return root(out) == out && program_.values[out].variable < 0 && writers_[out] == 1;
    };
    if (!std::all_of(call.out.begin(), call.out.end(), alone)) return false;
    if (call.spec.op == "copy") return call.spec.out[0].bytes() <= program_.values[root(call.in[0])].view.bytes();
    const OpDef& op = *graph_.node(call.node).op;
    return op.pure && op.role == Role::compute;
  }

  // The call for the set-up, on one thread; none if it cannot move.
  std::optional<LocalCall> setup_call(const LocalCall& call) {
    if (!is_invariant(call)) return {};
    const std::int64_t made = result_bytes(call);
    if (made > max_bytes_ - bytes_[program_.values[call.out[0]].device]) return {};
    LocalCall once = call;
    once.spec.team = 1;
    const auto choice = catalog_.find(once.spec);
    if (!choice || !works_in_setup(choice->workspace, made)) return {};
    once.kernel = choice->kernel;
    once.workspace = choice->workspace;
    return once;
  }

  void add_to_setup(LocalCall call) {
    for (LocalId out : call.out) in_setup_[out] = true;
    std::string key = cat(program_.values[call.out[0]].device, " ", print(call.spec));
    for (LocalId in : call.in) {
      const LocalId made = duplicate_of_[root(in)].valid() ? duplicate_of_[root(in)] : root(in);
      key += cat(" ", made, "+", program_.values[in].offset);
    }
    const auto [known, fresh] = made_.try_emplace(std::move(key), call.out);
    if (fresh) {
      program_.setup.push_back(std::move(call));
      return;
    }
    for (std::size_t i = 0; i < call.out.size(); ++i) duplicate_of_[call.out[i]] = known->second[i];
  }

  LocalProgram program_;
  const Graph& graph_;
  const KernelCatalog& catalog_;
  const std::int64_t max_bytes_;
  std::map<int, std::int64_t> bytes_;    // by device: bytes of results of moved calls
  ById<LocalId, int> writers_;           // by root: calls and transfers of launches that write it
  ById<LocalId, bool> in_setup_;         // by root: whether the set-up computes it
  ById<LocalId, LocalId> duplicate_of_;  // by root: the equal root that replaces it
  std::map<std::string, std::vector<LocalId>> made_;
};

}  // namespace

bool works_in_setup(std::int64_t workspace, std::int64_t made) { return workspace <= std::max(made, free_workspace); }

LocalProgram hoist(LocalProgram program, const Graph& graph, const KernelCatalog& catalog, std::int64_t max_bytes) {
  return Hoister(std::move(program), graph, catalog, max_bytes).run();
}

}  // namespace karez::passes
