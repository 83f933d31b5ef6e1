// The algorithms of all_reduce, and those that move boxes: reduce_scatter, all_gather, all_to_all and transfer.
#include "karez/comm/collective/algorithms.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "karez/comm/collective/program_writer.h"
#include "karez/comm/collective/ring.h"

namespace karez::comm {
namespace {
constexpr BufferOffset in_begin{BufferKind::in, 0}, out_begin{BufferKind::out, 0};

// Parts of a tensor, by the member that owns, sends or receives them.
struct Parts {
  explicit Parts(int members) : offsets(members), elements(members) {}
  std::vector<BufferOffset> offsets;
  std::vector<std::int64_t> elements;
  std::int64_t max_elements() const { return *std::max_element(elements.begin(), elements.end()); }
};

std::vector<BufferOffset> allocate_terms(ProgramWriter& writer, std::int64_t elements) {
  std::vector<BufferOffset> out(writer.members());
  for (int m = 1; m < writer.members(); ++m)
    if (m != writer.member()) out[m] = writer.allocate_staging(std::min(elements, chunk_elements(writer.spec())));
  return out;
}

// Sends to each peer the part of chunk `c` that the peer owns. Receives the peers' terms of this member's part into
// `terms`, and reduces them into `own` in member order. In an all_reduce, also posts the receives of the results.
void reduce_chunk(ProgramWriter& writer, std::int64_t c, const Parts& from, BufferOffset own,
                  const std::vector<BufferOffset>& terms) {
  const int member = writer.member(), members = writer.members();
  const std::int64_t offset = c * writer.chunk_bytes(), own_elements = writer.size_of_chunk(from.elements[member], c);
  std::vector<std::int64_t> messages(members);
  for (int peer : writer.peers()) {
    messages[peer] = writer.receive(peer, peer == 0 ? own + offset : terms[peer], own_elements);
    writer.send(peer, from.offsets[peer] + offset, writer.size_of_chunk(from.elements[peer], c));
  }
  if (writer.spec().kind == CollectiveKind::all_reduce)
    for (int peer : writer.peers())
      writer.receive(peer, BufferOffset{BufferKind::out, from.offsets[peer].offset} + offset,
                     writer.size_of_chunk(from.elements[peer], c));
  if (own_elements == 0) return;
  for (int m = 0; m < members; ++m) {
    BufferOffset term = m == member ? from.offsets[member] + offset : terms[m];
    if (m != member) writer.await_received(m, messages[m]);
    if (m > 0) writer.reduce(term, own + offset, own_elements);
    // Other members receive member 0's part into the result.
    if (m == 0 && member == 0) writer.copy(term, own + offset, own_elements);
  }
}

// --- all_reduce

void write_direct_all_reduce(ProgramWriter& writer, std::int64_t elements) {
  const int member = writer.member(), members = writer.members();
  Parts from(members);
  for (int m = 0; m < members; ++m) {
    FlatRange range = flat_range(elements, members, m);
    from.offsets[m] = {BufferKind::in, range.begin * writer.element_bytes()};
    from.elements[m] = range.size;
  }
  const BufferOffset own{BufferKind::out, from.offsets[member].offset};
  const std::vector<BufferOffset> terms = allocate_terms(writer, from.elements[0]);
  for (std::int64_t c = 0; c < writer.chunk_count(from.elements[0]); ++c) {
    reduce_chunk(writer, c, from, own, terms);
    // The results of this chunk are sent over the same links, after its terms.
    for (int peer : writer.peers())
      writer.send(peer, own + c * writer.chunk_bytes(), writer.size_of_chunk(from.elements[member], c));
  }
}

void write_flat_all_reduce(ProgramWriter& writer, std::int64_t elements) {
  const int member = writer.member(), members = writer.members();
  std::vector<BufferOffset> terms(members);
  std::vector<std::int64_t> messages(members);
  for (int peer : writer.peers()) {
    terms[peer] = peer == 0 ? out_begin : writer.allocate_staging(elements);
    messages[peer] = writer.receive(peer, terms[peer], elements);
    writer.send(peer, in_begin, elements);
  }
  for (int m = 0; m < members; ++m) {
    if (m != member) writer.await_received(m, messages[m]);
    BufferOffset term = m == member ? in_begin : terms[m];
    if (m > 0) writer.reduce(term, out_begin, elements);
    if (m == 0 && member == 0) writer.copy(term, out_begin, elements);
  }
}

// The sum of a range starts at the successor of the range's owner, gains one term per step, and is complete at the
// owner. Then the results are sent round the ring.
void write_ring_all_reduce(ProgramWriter& writer, std::int64_t elements) {
  const int members = writer.members();
  auto at = [&](BufferKind memory, int owner) {
    return BufferOffset{memory, flat_range(elements, members, owner).begin * writer.element_bytes()};
  };
  auto size = [&](int owner) { return flat_range(elements, members, owner).size; };
  std::vector<RingStep> steps;
  for (int s = 0; s < members - 1; ++s) {
    const int owner = writer.neighbour(-s - 2);
    steps.push_back({at(BufferKind::out, owner), size(owner), at(BufferKind::in, owner), false});
  }
  for (int s = 0; s < members - 1; ++s) {
    const int owner = writer.neighbour(-s - 1);
    steps.push_back({at(BufferKind::out, owner), size(owner), {}, false});
  }
  const int previous = writer.neighbour(-1);
  write_ring(writer, at(BufferKind::in, previous), size(previous), steps);
}

// A member first keeps the half of all ranges that contains its own range, and sends the other half to the member that
// keeps it. It halves the kept ranges in the same way until one is left; then the results return by the same steps in
// reverse (Rabenseifner, "Optimization of collective reduction operations", 2004).
void write_recursive_all_reduce(ProgramWriter& writer, std::int64_t elements) {
  const int member = writer.member(), members = writer.members();
  auto begin = [&](int range) { return range == members ? elements : flat_range(elements, members, range).begin; };
  auto at = [&](BufferKind memory, int range) { return BufferOffset{memory, begin(range) * writer.element_bytes()}; };
  const BufferOffset buffer = members > 2 ? writer.allocate_staging(begin(members / 4)) : BufferOffset{};
  for (int half = members / 2; half >= 1; half /= 2) {
    const int peer = member ^ half, kept_range = member / half * half, sent_range = peer / half * half;
    const bool first = half == members / 2;
    const std::int64_t count = begin(kept_range + half) - begin(kept_range);
    const BufferOffset own = at(BufferKind::out, kept_range), to = first ? own : buffer;
    std::int64_t message = writer.send_receive(peer, at(first ? BufferKind::in : BufferKind::out, sent_range),
                                               begin(sent_range + half) - begin(sent_range), to, count);
    writer.for_each_chunk(count, [&](std::int64_t offset, std::int64_t chunk_size) {
      writer.await_received(peer, ++message);
      writer.reduce((first ? at(BufferKind::in, kept_range) : buffer) + offset, own + offset, chunk_size);
    });
  }
  for (int half = 1; half < members; half *= 2) {
    const int peer = member ^ half, own_range = member / half * half, peer_range = peer / half * half;
    writer.await_all_sent(peer);  // results are received into the memory that was sent before
    writer.send_receive(peer, at(BufferKind::out, own_range), begin(own_range + half) - begin(own_range),
                        at(BufferKind::out, peer_range), begin(peer_range + half) - begin(peer_range));
    writer.await_all_received(peer);
  }
}

void write_all_reduce(ProgramWriter& writer) {
  const std::int64_t elements = writer.spec().in.count();
  if (writer.members() == 1) return writer.copy(in_begin, out_begin, elements);
  if (writer.spec().algorithm == CollectiveAlgorithm::ring) return write_ring_all_reduce(writer, elements);
  if (writer.spec().algorithm == CollectiveAlgorithm::flat) return write_flat_all_reduce(writer, elements);
  if (uses_recursive_halving(writer.spec())) return write_recursive_all_reduce(writer, elements);
  write_direct_all_reduce(writer, elements);
}

// --- boxes

void write_reduce_scatter(ProgramWriter& writer) {
  const CollectiveSpec& spec = writer.spec();
  const int member = writer.member(), members = writer.members();
  const TensorBox result = whole_box(spec.out);
  if (members == 1) return writer.copy_box(in_begin, spec.in, spec.sends[0], out_begin, spec.out, result);
  Parts from(members);
  for (int m = 0; m < members; ++m) {
    from.offsets[m] = writer.pack(spec.sends[m]);
    from.elements[m] = count_of(spec.in, spec.sends[m]);
  }
  const std::int64_t max_elements = from.max_elements();
  BufferOffset own = writer.receive_position(result);
  if (spec.algorithm == CollectiveAlgorithm::ring) {
    BufferOffset buffers[2];
    for (BufferOffset& buffer : buffers) buffer = writer.allocate_staging(max_elements);
    std::vector<RingStep> steps;
    for (int s = 0; s < members - 1; ++s) {
      const int owner = writer.neighbour(-s - 2);
      steps.push_back({owner == member ? own : buffers[s % 2], from.elements[owner], from.offsets[owner],
                       s >= 2 && owner != member});
    }
    const int previous = writer.neighbour(-1);
    write_ring(writer, from.offsets[previous], from.elements[previous], steps);
  } else {
    const std::vector<BufferOffset> terms = allocate_terms(writer, from.elements[member]);
    for (std::int64_t c = 0; c < writer.chunk_count(max_elements); ++c) reduce_chunk(writer, c, from, own, terms);
  }
  writer.unpack(own, result);
}

// Exchanges boxes with all other members at the same time. The member's own box is copied while the messages are in
// transit.
void exchange(ProgramWriter& writer, const Parts& from, const Parts& to) {
  std::int64_t max_elements = 0;
  for (int peer : writer.peers()) max_elements = std::max({max_elements, from.elements[peer], to.elements[peer]});
  for (std::int64_t c = 0; c < writer.chunk_count(max_elements); ++c) {
    for (int peer : writer.peers()) {
      writer.receive(peer, to.offsets[peer] + c * writer.chunk_bytes(), writer.size_of_chunk(to.elements[peer], c));
      writer.send(peer, from.offsets[peer] + c * writer.chunk_bytes(), writer.size_of_chunk(from.elements[peer], c));
    }
  }
  writer.copy_own_box();
  for (int peer : writer.peers()) {
    writer.await_all_received(peer);
    writer.unpack(to.offsets[peer], writer.spec().receives[peer]);
  }
}

void write_all_gather(ProgramWriter& writer) {
  const CollectiveSpec& spec = writer.spec();
  const int member = writer.member(), members = writer.members();
  if (members == 1) return writer.copy_own_box();
  const BufferOffset own = writer.pack(whole_box(spec.in));
  Parts from(members), to(members);
  for (int m = 0; m < members; ++m) {
    to.offsets[m] = m == member ? own : writer.receive_position(spec.receives[m]);
    to.elements[m] = count_of(spec.out, spec.receives[m]);
  }
  if (spec.algorithm == CollectiveAlgorithm::ring) {
    writer.copy_own_box();
    std::vector<RingStep> steps;
    for (int s = 0; s < members - 1; ++s) {
      const int owner = writer.neighbour(-s - 1);
      steps.push_back({to.offsets[owner], to.elements[owner], {}, false});
    }
    write_ring(writer, own, to.elements[member], steps);
    for (int peer : writer.peers()) writer.unpack(to.offsets[peer], spec.receives[peer]);
    return;
  }
  for (int m = 0; m < members; ++m) {
    from.offsets[m] = own;
    from.elements[m] = to.elements[member];
  }
  exchange(writer, from, to);
}

void write_all_to_all(ProgramWriter& writer) {
  const CollectiveSpec& spec = writer.spec();
  Parts from(writer.members()), to(writer.members());
  for (int peer : writer.peers()) {
    from.offsets[peer] = writer.pack(spec.sends[peer]);
    from.elements[peer] = count_of(spec.in, spec.sends[peer]);
    to.offsets[peer] = writer.receive_position(spec.receives[peer]);
    to.elements[peer] = count_of(spec.out, spec.receives[peer]);
  }
  exchange(writer, from, to);
}
}  // namespace

Program make_program(const CollectiveSpec& spec, int depth) {
  ProgramWriter writer(spec, depth);
  switch (spec.kind) {
    case CollectiveKind::all_reduce: write_all_reduce(writer); break;
    case CollectiveKind::reduce_scatter: write_reduce_scatter(writer); break;
    case CollectiveKind::all_gather: write_all_gather(writer); break;
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer: write_all_to_all(writer); break;
  }
  return writer.finish();
}

}  // namespace karez::comm
