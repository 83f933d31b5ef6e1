// Program writer: appends the instructions of one member's program, counts its messages, and allocates its staging.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/program.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

class ProgramWriter {
 public:
  ProgramWriter(const CollectiveSpec& spec, int depth);

  const CollectiveSpec& spec() const { return spec_; }
  int member() const { return spec_.member; }
  int members() const { return spec_.members; }
  std::int64_t element_bytes() const { return element_bytes_; }
  // The other members, beginning with the successor, so that not all members begin with the same peer.
  std::vector<int> peers() const;
  int neighbour(int steps) const { return ((member() + steps) % members() + members()) % members(); }  // on the ring

  // These functions return the number of the message, to be passed to an await; an empty message is not sent. They
  // insert an await if the link would have more than `depth` pending messages.
  std::int64_t receive(int peer, BufferOffset to, std::int64_t elements);
  std::int64_t send(int peer, BufferOffset from, std::int64_t elements);
  // Sends to and receives from one peer, chunk by chunk. Returns the number of the last message that was received from
  // the peer before this call.
  std::int64_t send_receive(int peer, BufferOffset from, std::int64_t sent_elements, BufferOffset to,
                            std::int64_t received_elements);
  void await_received(int peer, std::int64_t message);
  void await_sent(int peer, std::int64_t message);
  void await_all_received(int peer) { await_received(peer, received_[peer].posted); }
  void await_all_sent(int peer) { await_sent(peer, sent_[peer].posted); }
  bool can_receive(int peer) const;  // true if `receive` would not insert an await

  void copy(BufferOffset from, BufferOffset to, std::int64_t elements);
  void reduce(BufferOffset from, BufferOffset to, std::int64_t elements);
  void copy_box(BufferOffset from, const View& from_view, const TensorBox& from_box, BufferOffset to,
                const View& to_view, const TensorBox& to_box);
  void copy_own_box();  // the box that this member sends to itself
  BufferOffset allocate_staging(std::int64_t elements);

  // Returns the position of a box of `in` in packed order. A contiguous box stays in place; any other box is packed
  // into staging.
  BufferOffset pack(const TensorBox& box);
  // Returns the position at which a box of `out` is received: in place if the box is contiguous, otherwise in staging.
  BufferOffset receive_position(const TensorBox& box);
  void unpack(BufferOffset from, const TensorBox& box);  // no effect unless the box was received into staging

  // Calls body(offset in bytes, elements) for each chunk of these elements.
  template <class Body> void for_each_chunk(std::int64_t elements, Body body) const {
    std::int64_t max_elements = chunk_elements(spec_);
    for (std::int64_t begin = 0; begin < elements; begin += max_elements)
      body(begin * element_bytes_, std::min(max_elements, elements - begin));
  }
  std::int64_t size_of_chunk(std::int64_t elements, std::int64_t chunk) const;  // in elements
  std::int64_t chunk_count(std::int64_t elements) const;
  std::int64_t chunk_bytes() const { return chunk_elements(spec_) * element_bytes_; }

  // Awaits all messages and returns the program.
  Program finish();

 private:
  using Opcode = Instruction::Opcode;
  // Messages of one direction of one link, counted as the program is written.
  struct Count {
    std::int64_t posted = 0, awaited = 0;
  };
  void add(Opcode opcode, int peer, BufferOffset from, BufferOffset to, std::int64_t count);
  void await(Opcode opcode, Count& count, int peer, std::int64_t message);

  const CollectiveSpec& spec_;
  std::int64_t depth_, element_bytes_;
  std::vector<Count> received_, sent_;  // by peer
  Program program_;
};

}  // namespace karez::comm
