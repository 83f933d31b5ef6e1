// memory: exact or best-found packing of each actor's scratch values by their first and last call.
#include "passes/memory.h"

#include <algorithm>
#include <map>

#include "solve/packing.h"

namespace karez::passes {

std::vector<bool> crosses_actors(const Compilation& c) {
  std::vector<int> maker(c.locals.size(), -1);
  for (std::size_t s = 0; s < c.local.size(); ++s) {
    for (const LocalCall& call : c.local[s].calls)
      for (int out : call.out) maker[static_cast<std::size_t>(c.locals[static_cast<std::size_t>(out)].root)] = static_cast<int>(s);
    for (int out : c.local[s].writes) maker[static_cast<std::size_t>(out)] = static_cast<int>(s);
  }
  std::vector<bool> crosses(c.locals.size(), false);
  auto read = [&](int value, int by) {
    auto root = static_cast<std::size_t>(c.locals[static_cast<std::size_t>(value)].root);
    if (maker[root] != by) crosses[root] = true;
  };
  for (std::size_t s = 0; s < c.local.size(); ++s) {
    for (const LocalCall& call : c.local[s].calls)
      for (int in : call.in) read(in, static_cast<int>(s));
    for (int in : c.local[s].reads) read(in, static_cast<int>(s));
    bool own_stream = c.segments[static_cast<std::size_t>(c.local[s].segment)].stream != StreamKind::compute;
    if (own_stream)
      for (int out : c.local[s].writes) crosses[static_cast<std::size_t>(out)] = true;  // inputs and collectives fill registers
  }
  for (const auto& [output, value] : c.fetched) crosses[static_cast<std::size_t>(c.locals[static_cast<std::size_t>(value)].root)] = true;
  return crosses;
}

void memory(Compilation& c) {
  auto crosses = crosses_actors(c);
  c.scratch_offset.assign(c.locals.size(), -1);
  c.workspace_offset.assign(c.local.size(), {});
  c.scratch_bytes.assign(own_devices(c.graph, c.options.rank).size(), 0);
  for (std::size_t s = 0; s < c.local.size(); ++s) {
    const LocalSegment& segment = c.local[s];
    std::map<int, std::pair<long, long>> life;  // root -> first and last call
    for (std::size_t i = 0; i < segment.calls.size(); ++i) {
      auto touch = [&](int value) {
        int root = c.locals[static_cast<std::size_t>(value)].root;
        const LocalValue& owner = c.locals[static_cast<std::size_t>(root)];
        if (owner.variable >= 0 || owner.constant || crosses[static_cast<std::size_t>(root)]) return;
        auto at = life.try_emplace(root, static_cast<long>(i), static_cast<long>(i)).first;
        at->second.second = static_cast<long>(i);
      };
      for (int in : segment.calls[i].in) touch(in);
      for (int out : segment.calls[i].out) touch(out);
    }
    std::vector<solve::Interval> intervals;
    std::vector<int> owner;
    for (const auto& [root, span] : life) {
      std::int64_t bytes = c.locals[static_cast<std::size_t>(root)].view.bytes();
      intervals.push_back({span.first, span.second + 1, static_cast<long>(round_up(std::max<std::int64_t>(bytes, 1), 64)), 64});
      owner.push_back(root);
    }
    for (std::size_t i = 0; i < segment.calls.size(); ++i) {
      if (segment.calls[i].workspace == 0) continue;
      intervals.push_back({static_cast<long>(i), static_cast<long>(i) + 1, static_cast<long>(round_up(segment.calls[i].workspace, 64)), 64});
      owner.push_back(-static_cast<int>(i) - 1);
    }
    c.workspace_offset[s].assign(segment.calls.size(), -1);
    if (intervals.empty()) continue;
    solve::Packing packing = solve::pack(intervals);
    for (std::size_t k = 0; k < owner.size(); ++k) {
      if (owner[k] >= 0) {
        c.scratch_offset[static_cast<std::size_t>(owner[k])] = packing.offset[k];
      } else {
        c.workspace_offset[s][static_cast<std::size_t>(-owner[k] - 1)] = packing.offset[k];
      }
    }
    auto& most = c.scratch_bytes[static_cast<std::size_t>(std::max(segment.device, 0))];
    most = std::max<std::int64_t>(most, packing.peak);
  }
}

}  // namespace karez::passes
