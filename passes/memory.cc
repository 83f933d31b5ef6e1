// memory: exact or best-found packing of each actor's scratch values by their first and last call.
#include "passes/memory.h"

#include <algorithm>
#include <map>

#include "solve/packing.h"

namespace karez::passes {

ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmented& cut) {
  constexpr std::size_t nobody = SIZE_MAX;
  ById<LocalId, std::size_t> maker(program.values.size(), nobody);  // a local segment
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    for (const LocalCall& call : program.segments[s].calls)
      for (LocalId out : call.out) maker[program.values[out].root] = s;
    for (LocalId out : program.segments[s].writes) maker[out] = s;
  }
  ById<LocalId, bool> crosses(program.values.size(), false);
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const LocalSegment& segment = program.segments[s];
    auto read = [&](LocalId value) {
      LocalId root = program.values[value].root;
      if (maker[root] != s) crosses[root] = true;
    };
    for (const LocalCall& call : segment.calls)
      for (LocalId in : call.in) read(in);
    for (LocalId in : segment.reads) read(in);
    bool own_stream = cut.segments[segment.segment].stream != StreamKind::compute;
    if (own_stream)
      for (LocalId out : segment.writes) crosses[out] = true;  // inputs and collectives fill registers
  }
  for (const Fetched& fetched : program.fetched) crosses[program.values[fetched.value].root] = true;
  return crosses;
}

Scratch memory(const LocalProgram& program, const Segmented& cut) {
  auto crosses = crosses_actors(program, cut);
  Scratch made;
  made.offset.assign(program.values.size(), -1);
  for (const LocalSegment& segment : program.segments) {
    std::map<LocalId, std::pair<long, long>> life;  // root -> first and last call
    for (std::size_t i = 0; i < segment.calls.size(); ++i) {
      auto touch = [&](LocalId value) {
        LocalId root = program.values[value].root;
        const LocalValue& owner = program.values[root];
        if (owner.variable >= 0 || owner.constant || crosses[root]) return;
        auto at = life.try_emplace(root, static_cast<long>(i), static_cast<long>(i)).first;
        at->second.second = static_cast<long>(i);
      };
      for (LocalId in : segment.calls[i].in) touch(in);
      for (LocalId out : segment.calls[i].out) touch(out);
    }
    std::vector<solve::Interval> intervals;
    std::vector<std::int64_t*> offsets;  // where the answers go
    for (const auto& [root, span] : life) {
      std::int64_t bytes = program.values[root].view.bytes();
      intervals.push_back({span.first, span.second + 1, static_cast<long>(round_up(std::max<std::int64_t>(bytes, 1), 64)), 64});
      offsets.push_back(&made.offset[root]);
    }
    auto& workspace = made.workspace.emplace_back(segment.calls.size(), -1);
    for (std::size_t i = 0; i < segment.calls.size(); ++i) {
      if (segment.calls[i].workspace == 0) continue;
      intervals.push_back({static_cast<long>(i), static_cast<long>(i) + 1, static_cast<long>(round_up(segment.calls[i].workspace, 64)), 64});
      offsets.push_back(&workspace[i]);
    }
    const auto device = static_cast<std::size_t>(std::max(segment.device, 0));
    if (made.bytes.size() <= device) made.bytes.resize(device + 1, 0);
    if (intervals.empty()) continue;
    solve::Packing packing = solve::pack(intervals);
    for (std::size_t k = 0; k < offsets.size(); ++k) *offsets[k] = packing.offset[k];
    made.bytes[device] = std::max<std::int64_t>(made.bytes[device], packing.peak);
  }
  return made;
}

}  // namespace karez::passes
