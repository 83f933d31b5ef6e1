// Collective counts: the formula for bytes of staging, and the list of messages of a program.
#include "karez/comm/collective/collective_counts.h"

#include <algorithm>

#include "karez/base/error.h"
#include "karez/comm/collective/algorithms.h"
#include "karez/comm/collective/box_copy.h"
#include "karez/comm/collective/collective_check.h"
#include "karez/comm/collective/program.h"

namespace karez::comm {
namespace {
std::int64_t round_up_64(std::int64_t bytes) { return round_up(bytes, 64); }
}  // namespace

std::int64_t staging_bytes(const CollectiveSpec& spec) {
  if (spec.members == 1) return 0;
  std::int64_t element_bytes = size_of(spec.in.dtype), peers = spec.members - 1, sum = 0;
  auto add = [&](const View& view, const TensorBox& box) {
    if (!is_contiguous(view, box)) sum += round_up_64(count_of(view, box) * element_bytes);
  };
  auto bytes_of_terms = [&](std::int64_t elements) {
    return peers * round_up_64(std::min(elements, chunk_elements(spec)) * element_bytes);
  };
  switch (spec.kind) {
    case CollectiveKind::all_reduce:
      if (spec.algorithm == CollectiveAlgorithm::flat) return peers * round_up_64(spec.in.count() * element_bytes);
      if (uses_recursive_halving(spec))
        return spec.members == 2
                   ? 0
                   : round_up_64(flat_range(spec.in.count(), spec.members, spec.members / 4).begin * element_bytes);
      return spec.algorithm == CollectiveAlgorithm::ring
                 ? 0
                 : bytes_of_terms(flat_range(spec.in.count(), spec.members, 0).size);
    case CollectiveKind::reduce_scatter: {
      std::int64_t max_elements = 0;
      for (const TensorBox& box : spec.sends) {
        add(spec.in, box);
        max_elements = std::max(max_elements, count_of(spec.in, box));
      }
      add(spec.out, whole_box(spec.out));
      return sum + (spec.algorithm == CollectiveAlgorithm::ring ? 2 * round_up_64(max_elements * element_bytes)
                                                                : bytes_of_terms(spec.out.count()));
    }
    case CollectiveKind::all_gather: add(spec.in, whole_box(spec.in)); break;
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer:
      for (int m = 0; m < spec.members; ++m)
        if (m != spec.member) add(spec.in, spec.sends[m]);
      break;
  }
  for (int m = 0; m < spec.members; ++m)
    if (m != spec.member) add(spec.out, spec.receives[m]);
  return sum;
}

std::vector<PlannedMessage> messages_of(const CollectiveSpec& spec) {
  check(spec);
  std::vector<PlannedMessage> out;
  for (const Instruction& step : make_program(spec, 1).steps)
    if (step.opcode == Instruction::Opcode::receive || step.opcode == Instruction::Opcode::send)
      out.push_back({step.peer, step.opcode == Instruction::Opcode::send, step.count});
  return out;
}

std::vector<int> peers_of(const CollectiveSpec& spec) {
  std::vector<int> peers;
  for (const PlannedMessage& message : messages_of(spec)) peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace karez::comm
