// The buffers of a plan that can share memory: registers, and values inside actors.
#pragma once

#include <climits>
#include <cstdint>
#include <set>
#include <vector>

#include "karez/passes/lowering/happens_before.h"
#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"

namespace karez::passes {

constexpr std::int64_t cache_line = 64;              // bytes, the alignment of buffers
constexpr int before_act = -1, whole_act = INT_MAX;  // call numbers: before the first call, and the end of the act

// True if the block is in the arena, whose buffers may share memory.
bool in_arena(const Plan& plan, BlockId b);

// A call of an act, or an entire act without calls.
struct CallPoint {
  ActorId actor;
  int call = 0;
};

// A contiguous range of bytes: all slots of a register, or overlapping operands of one actor.
struct ArenaBuffer {
  RegisterId reg;                     // the register; invalid for operands
  BlockId block;                      // the block of the range, for operands
  std::int64_t begin = 0, bytes = 0;  // of the range
  DeviceId device;
  bool is_exclusive = false;  // true if the buffer must not share memory with other buffers
  CallPoint first_call;
  std::vector<CallPoint> last_calls;  // one for each reader
  StreamId stream;                    // the stream of the compute actor, if the buffer is in use only within one act
};

struct BufferTable {
  std::vector<ArenaBuffer> buffers;
  std::set<BlockId> packed_blocks;  // blocks whose contents are all in `buffers`; other blocks are not packed
};
BufferTable find_buffers(const Plan& plan, const HappensBefore& order);

}  // namespace karez::passes
