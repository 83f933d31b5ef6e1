// Program: a collective as a linear list of instructions for one member: post, send, await, copy, reduce. A run keeps
// only its position in the list.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/comm/collective/box_copy.h"
#include "karez/comm/collective/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// A position in one of the three buffers that CollectiveRun::start takes.
enum class BufferKind : std::uint8_t { in, out, staging };
struct BufferOffset {
  BufferKind memory = BufferKind::in;
  std::int64_t offset = 0;
  BufferOffset operator+(std::int64_t bytes) const { return {memory, offset + bytes}; }
};

struct Instruction {
  enum class Opcode : std::uint8_t {
    receive,         // post a receive: the next message of `peer`, `count` bytes, goes to `to`
    send,            // send `count` bytes at `from` to `peer`
    await_received,  // wait until `count` messages of `peer` have arrived in this run
    await_sent,      // wait until `count` messages to `peer` have been sent
    copy,            // copy `count` bytes from `from` to `to`
    copy_box,        // run boxes[count] from memory `from` to memory `to`
    reduce,          // reduce `count` elements at `from` into `to`
  };
  Opcode opcode = Opcode::copy;
  int peer = 0;
  BufferOffset from, to;
  std::int64_t count = 0;
};

struct Program {
  std::vector<Instruction> steps;
  std::vector<BoxCopy> boxes;
  std::int64_t staging_bytes = 0;
};

// Returns true for a recursive all_reduce of 2, 4, 8, … members; with other numbers of members it runs as direct.
bool uses_recursive_halving(const CollectiveSpec& spec);

// Range `index` of the flat memory of an all_reduce: its first element and its number of elements.
struct FlatRange {
  std::int64_t begin = 0, size = 0;
};
FlatRange flat_range(std::int64_t elements, int members, int index);
std::int64_t chunk_elements(const CollectiveSpec& spec);

}  // namespace karez::comm
