// A collective as a straight line of instructions for one member: post, send, await, copy, reduce. The run holds only a
// position in it.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/comm/box_copy.h"
#include "karez/comm/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// Where bytes lie: in one of the three memories that a run is started with.
enum class BufferKind : std::uint8_t { in, out, staging };
struct BufferOffset {
  BufferKind memory = BufferKind::in;
  std::int64_t offset = 0;
  BufferOffset operator+(std::int64_t bytes) const { return {memory, offset + bytes}; }
};

struct Instruction {
  enum class Opcode : std::uint8_t {
    receive,         // post: the next message of `peer` goes to `to`, `count` bytes
    send,            // `count` bytes at `from`, to `peer`
    await_received,  // go on when `count` messages of `peer` have arrived in this run
    await_sent,      // go on when `count` messages to `peer` have left
    copy,            // `count` bytes from `from` to `to`
    copy_box,        // boxes[count], from memory `from` to memory `to`
    reduce,          // `count` elements at `from` into `to`
  };
  Opcode opcode = Opcode::copy;
  int peer = 0;
  BufferOffset from, to;
  std::int64_t count = 0;
};

struct Program {
  std::vector<Instruction> steps;
  std::vector<BoxCopy> boxes;
  std::int64_t staging = 0;  // bytes it uses
};

// `depth`: messages that may wait on a link at once. All posts of a round stand before its awaits, so no circle of
// members can wait.
Program program_of(const CollectiveSpec& spec, int depth);

// Whether it is a recursive all_reduce of 2, 4, 8, … members; of another number it goes as direct.
bool uses_recursive_halving(const CollectiveSpec& spec);

// Elements of range `index` of the flat memory of an all_reduce: its first, and how many.
struct FlatRange {
  std::int64_t begin = 0, size = 0;
};
FlatRange flat_range(std::int64_t elements, int members, int index);
std::int64_t chunk_elements(const CollectiveSpec& spec);

}  // namespace karez::comm
