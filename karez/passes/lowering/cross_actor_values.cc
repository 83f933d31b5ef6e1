// Finds the values that other actors or launches read.
#include "karez/passes/lowering/cross_actor_values.h"

namespace karez::passes {

ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmentation& segmentation) {
  constexpr std::size_t no_segment = SIZE_MAX;
  ById<LocalId, std::size_t> producer(program.values.size(), no_segment);  // index of a local segment
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    for (const LocalCall& call : program.segments[s].calls)
      for (LocalId out : call.out) producer[program.values[out].root] = s;
    for (LocalId out : program.segments[s].writes) producer[out] = s;
  }
  ById<LocalId, bool> crosses(program.values.size(), false);
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const LocalSegment& segment = program.segments[s];
    auto read = [&](LocalId value) {
      LocalId root = program.values[value].root;
      if (producer[root] != s) crosses[root] = true;
    };
    for (const LocalCall& call : segment.calls)
      for (LocalId in : call.in) read(in);
    for (LocalId in : segment.reads) read(in);
    bool fills_register = segmentation.segments[segment.segment].stream != StreamKind::compute;
    if (fills_register)
      for (LocalId out : segment.writes) crosses[out] = true;  // inputs and collectives fill registers
  }
  for (const LocalOutput& output : program.outputs) crosses[program.values[output.value].root] = true;
  return crosses;
}

ById<LocalId, bool> read_by_launches(const LocalProgram& program) {
  ById<LocalId, bool> is_read(program.values.size(), false);
  for (const LocalSegment& segment : program.segments) {
    for (const LocalCall& call : segment.calls)
      for (LocalId in : call.in) is_read[program.values[in].root] = true;
    for (LocalId in : segment.reads) is_read[program.values[in].root] = true;
  }
  for (const LocalOutput& output : program.outputs) is_read[program.values[output.value].root] = true;
  return is_read;
}

}  // namespace karez::passes
