// The program writer: appends instructions for messages, copies and reductions, and the awaits that they need.
#include "karez/comm/collective/program_writer.h"

#include <utility>

namespace karez::comm {

ProgramWriter::ProgramWriter(const CollectiveSpec& spec, int depth)
    : spec_(spec),
      depth_(depth),
      element_bytes_(size_of(spec.in.dtype)),
      received_(spec.members),
      sent_(spec.members) {}

std::vector<int> ProgramWriter::peers() const {
  std::vector<int> out;
  for (int k = 1; k < members(); ++k) out.push_back(neighbour(k));
  return out;
}

void ProgramWriter::add(Opcode opcode, int peer, BufferOffset from, BufferOffset to, std::int64_t count) {
  program_.steps.push_back({opcode, peer, from, to, count});
}

void ProgramWriter::await(Opcode opcode, Count& count, int peer, std::int64_t message) {
  if (message <= count.awaited) return;
  add(opcode, peer, {}, {}, message);
  count.awaited = message;
}

void ProgramWriter::await_received(int peer, std::int64_t message) {
  await(Opcode::await_received, received_[peer], peer, message);
}

void ProgramWriter::await_sent(int peer, std::int64_t message) {
  await(Opcode::await_sent, sent_[peer], peer, message);
}

bool ProgramWriter::can_receive(int peer) const { return received_[peer].posted - received_[peer].awaited < depth_; }

std::int64_t ProgramWriter::receive(int peer, BufferOffset to, std::int64_t elements) {
  Count& count = received_[peer];
  if (elements == 0) return count.posted;
  await_received(peer, count.posted - depth_ + 1);
  add(Opcode::receive, peer, {}, to, elements * element_bytes_);
  return ++count.posted;
}

std::int64_t ProgramWriter::send(int peer, BufferOffset from, std::int64_t elements) {
  Count& count = sent_[peer];
  if (elements == 0) return count.posted;
  await_sent(peer, count.posted - depth_ + 1);
  add(Opcode::send, peer, from, {}, elements * element_bytes_);
  return ++count.posted;
}

std::int64_t ProgramWriter::send_receive(int peer, BufferOffset from, std::int64_t sent_elements, BufferOffset to,
                                         std::int64_t received_elements) {
  const std::int64_t previous = received_[peer].posted;
  for (std::int64_t c = 0; c < chunk_count(std::max(sent_elements, received_elements)); ++c) {
    receive(peer, to + c * chunk_bytes(), size_of_chunk(received_elements, c));
    send(peer, from + c * chunk_bytes(), size_of_chunk(sent_elements, c));
  }
  return previous;
}

void ProgramWriter::copy(BufferOffset from, BufferOffset to, std::int64_t elements) {
  if (elements > 0) add(Opcode::copy, member(), from, to, elements * element_bytes_);
}

void ProgramWriter::reduce(BufferOffset from, BufferOffset to, std::int64_t elements) {
  if (elements > 0) add(Opcode::reduce, member(), from, to, elements);
}

void ProgramWriter::copy_box(BufferOffset from, const View& from_view, const TensorBox& from_box, BufferOffset to,
                             const View& to_view, const TensorBox& to_box) {
  if (count_of(from_view, from_box) == 0) return;
  program_.boxes.emplace_back(from_view, from_box, to_view, to_box);
  add(Opcode::copy_box, member(), from, to, static_cast<std::int64_t>(program_.boxes.size()) - 1);
}

void ProgramWriter::copy_own_box() {
  copy_box({BufferKind::in, 0}, spec_.in, spec_.sends[member()], {BufferKind::out, 0}, spec_.out,
           spec_.receives[member()]);
}

BufferOffset ProgramWriter::allocate_staging(std::int64_t elements) {
  BufferOffset out{BufferKind::staging, program_.staging_bytes};
  program_.staging_bytes += round_up(elements * element_bytes_, 64);
  return out;
}

BufferOffset ProgramWriter::pack(const TensorBox& box) {
  if (is_contiguous(spec_.in, box)) return {BufferKind::in, offset_bytes(spec_.in, box)};
  BufferOffset to = allocate_staging(count_of(spec_.in, box));
  copy_box({BufferKind::in, 0}, spec_.in, box, to, packed_view(spec_.in.dtype, box.size),
           {Shape(box.size.size(), 0), box.size});
  return to;
}

BufferOffset ProgramWriter::receive_position(const TensorBox& box) {
  if (is_contiguous(spec_.out, box)) return {BufferKind::out, offset_bytes(spec_.out, box)};
  return allocate_staging(count_of(spec_.out, box));
}

void ProgramWriter::unpack(BufferOffset from, const TensorBox& box) {
  if (from.memory != BufferKind::staging || count_of(spec_.out, box) == 0) return;
  copy_box(from, packed_view(spec_.out.dtype, box.size), {Shape(box.size.size(), 0), box.size}, {BufferKind::out, 0},
           spec_.out, box);
}

std::int64_t ProgramWriter::size_of_chunk(std::int64_t elements, std::int64_t chunk) const {
  std::int64_t max_elements = chunk_elements(spec_);
  return std::clamp<std::int64_t>(elements - chunk * max_elements, 0, max_elements);
}

std::int64_t ProgramWriter::chunk_count(std::int64_t elements) const {
  return ceil_div(elements, chunk_elements(spec_));
}

Program ProgramWriter::finish() {
  for (int peer : peers()) {
    await_all_received(peer);
    await_all_sent(peer);
  }
  return std::move(program_);
}

}  // namespace karez::comm
