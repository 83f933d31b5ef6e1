// Ring: the steps in which data passes from member to member, in chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "karez/comm/collective/program.h"
#include "karez/comm/collective/program_writer.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// One step of the ring: receives from the predecessor and reduces `term`, if given, into the received data; the next
// step sends the result to the successor.
struct RingStep {
  BufferOffset to;
  std::int64_t elements = 0;
  std::optional<BufferOffset> term;
  bool sent_before = false;  // an earlier step sends from the memory into which this step receives
};

// Writes all steps; the first step sends `from`. They proceed in chunks, so that one chunk is in transit while the next
// one is reduced. A member waits only for messages of earlier steps, or of earlier chunks of its step, and posts a
// receive before it sends the message of the same number, so members cannot wait in a cycle.
void write_ring(ProgramWriter& writer, BufferOffset from, std::int64_t elements, const std::vector<RingStep>& steps);

}  // namespace karez::comm
