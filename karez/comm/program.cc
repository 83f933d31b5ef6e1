// The algorithms of the collectives: each writes the program of one member.
#include "karez/comm/program.h"

#include <algorithm>
#include <optional>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
using Opcode = Instruction::Opcode;

class Writer {
 public:
  Writer(const CollectiveSpec& spec, int depth)
      : spec_(spec),
        member_(spec.member),
        n_(spec.members),
        depth_(depth),
        element_(size_of(spec.in.dtype)),
        received_(n_),
        sent_(n_) {}

  Program write() {
    switch (spec_.kind) {
      case CollectiveKind::all_reduce: all_reduce(); break;
      case CollectiveKind::reduce_scatter: reduce_scatter(); break;
      case CollectiveKind::all_gather: all_gather(); break;
      case CollectiveKind::all_to_all:
      case CollectiveKind::transfer: all_to_all(); break;
    }
    for (int peer : peers()) {
      await_received(peer, received_[peer].posted);
      await_sent(peer, sent_[peer].posted);
    }
    return std::move(program_);
  }

 private:
  // Messages of one direction of one link, counted as the program is written.
  struct Count {
    std::int64_t posted = 0, awaited = 0;
  };

  // The other members, beginning with the successor, so that not all members begin with the same peer.
  std::vector<int> peers() const {
    std::vector<int> out;
    for (int k = 1; k < n_; ++k) out.push_back(ring(k));
    return out;
  }
  int ring(int steps) const { return ((member_ + steps) % n_ + n_) % n_; }

  void add(Opcode what, int peer, BufferOffset from, BufferOffset to, std::int64_t count) {
    program_.steps.push_back({what, peer, from, to, count});
  }
  void await_received(int peer, std::int64_t messages) {
    await(Opcode::await_received, received_[peer], peer, messages);
  }
  void await_sent(int peer, std::int64_t messages) { await(Opcode::await_sent, sent_[peer], peer, messages); }
  void await(Opcode what, Count& count, int peer, std::int64_t messages) {
    if (messages <= count.awaited) return;
    add(what, peer, {}, {}, messages);
    count.awaited = messages;
  }

  // Both return the number of the message, to await it; empty messages are not sent.
  std::int64_t receive(int peer, BufferOffset to, std::int64_t elements) {
    Count& count = received_[peer];
    if (elements == 0) return count.posted;
    await_received(peer, count.posted - depth_ + 1);
    add(Opcode::receive, peer, {}, to, elements * element_);
    return ++count.posted;
  }
  std::int64_t send(int peer, BufferOffset from, std::int64_t elements) {
    Count& count = sent_[peer];
    if (elements == 0) return count.posted;
    await_sent(peer, count.posted - depth_ + 1);
    add(Opcode::send, peer, from, {}, elements * element_);
    return ++count.posted;
  }
  void copy(BufferOffset from, BufferOffset to, std::int64_t elements) {
    if (elements > 0) add(Opcode::copy, member_, from, to, elements * element_);
  }
  void reduce(BufferOffset from, BufferOffset to, std::int64_t elements) {
    if (elements > 0) add(Opcode::reduce, member_, from, to, elements);
  }
  void copy_box(BufferKind from, const View& from_view, const TensorBox& from_box, BufferOffset to, const View& to_view,
                const TensorBox& to_box) {
    if (count_of(from_view, from_box) == 0) return;
    program_.boxes.emplace_back(from_view, from_box, to_view, to_box);
    add(Opcode::copy_box, member_, {from, 0}, to, static_cast<std::int64_t>(program_.boxes.size()) - 1);
  }
  BufferOffset stage(std::int64_t elements) {
    BufferOffset out{BufferKind::staging, program_.staging};
    program_.staging += round_up(elements * element_, 64);
    return out;
  }

  // The place of a packed box of `in`: its own memory if that is contiguous, otherwise staging, into which it is
  // packed.
  BufferOffset packed(const TensorBox& box) {
    if (is_contiguous(spec_.in, box)) return {BufferKind::in, offset_bytes(spec_.in, box)};
    BufferOffset to = stage(count_of(spec_.in, box));
    copy_box(BufferKind::in, spec_.in, box, to, packed_view(spec_.in.dtype, box.size),
             {Shape(box.size.size(), 0), box.size});
    return to;
  }
  // The place that a box of `out` is received into.
  BufferOffset receive_place(const TensorBox& box) {
    if (is_contiguous(spec_.out, box)) return {BufferKind::out, offset_bytes(spec_.out, box)};
    return stage(count_of(spec_.out, box));
  }
  void unpack(BufferOffset from, const TensorBox& box) {
    if (from.memory != BufferKind::staging || count_of(spec_.out, box) == 0) return;
    program_.boxes.emplace_back(packed_view(spec_.out.dtype, box.size), TensorBox{Shape(box.size.size(), 0), box.size},
                                spec_.out, box);
    add(Opcode::copy_box, member_, from, {BufferKind::out, 0}, static_cast<std::int64_t>(program_.boxes.size()) - 1);
  }

  // Calls body(offset in bytes, elements) for each chunk of this number of elements.
  template <class Body> void chunks(std::int64_t elements, Body body) const {
    std::int64_t most = chunk_elements(spec_);
    for (std::int64_t at = 0; at < elements; at += most) body(at * element_, std::min(most, elements - at));
  }
  // Elements of chunk number c.
  std::int64_t size_of_chunk(std::int64_t elements, std::int64_t c) const {
    std::int64_t most = chunk_elements(spec_);
    return std::clamp<std::int64_t>(elements - c * most, 0, most);
  }
  std::int64_t chunk_bytes() const { return chunk_elements(spec_) * element_; }

  // --- all_reduce

  void all_reduce() {
    std::int64_t elements = spec_.in.count();
    if (n_ == 1) return copy({BufferKind::in, 0}, {BufferKind::out, 0}, elements);
    if (spec_.algorithm == Algorithm::ring) return ring_all_reduce(elements);
    if (spec_.algorithm == Algorithm::flat) return flat_all_reduce(elements);
    if (uses_recursive_halving(spec_)) return recursive_all_reduce(elements);
    std::vector<BufferOffset> from(n_);
    std::vector<std::int64_t> size(n_);
    BufferOffset own{BufferKind::out, 0};
    for (int m = 0; m < n_; ++m) {
      FlatRange range = flat_range(elements, n_, m);
      from[m] = {BufferKind::in, range.begin * element_};
      size[m] = range.size;
      if (m == member_) own.offset = range.begin * element_;
    }
    std::vector<BufferOffset> buffers = receive_buffers(size[0]);
    std::int64_t rounds = ceil_div(size[0], chunk_elements(spec_));
    for (std::int64_t c = 0; c < rounds; ++c) {
      reduce_round(c, from, size, own, buffers);
      // The results are sent over the same links, each after the parts of its round.
      for (int peer : peers()) send(peer, own + c * chunk_bytes(), size_of_chunk(size[member_], c));
    }
  }

  // Sends every member's part of one chunk to its owner, which reduces in member order. Also posts the receives of an
  // all_reduce's results.
  void reduce_round(std::int64_t c, const std::vector<BufferOffset>& from, const std::vector<std::int64_t>& size,
                    BufferOffset own, const std::vector<BufferOffset>& buffers) {
    std::int64_t at = c * chunk_bytes(), here = size_of_chunk(size[member_], c);
    std::vector<std::int64_t> message(n_);
    for (int peer : peers()) {
      message[peer] = receive(peer, peer == 0 ? own + at : buffers[peer], here);
      send(peer, from[peer] + at, size_of_chunk(size[peer], c));
    }
    if (spec_.kind == CollectiveKind::all_reduce)
      for (int peer : peers())
        receive(peer, BufferOffset{BufferKind::out, from[peer].offset} + at, size_of_chunk(size[peer], c));
    if (here == 0) return;
    for (int m = 0; m < n_; ++m) {
      BufferOffset term = m == member_ ? from[member_] + at : buffers[m];
      if (m != member_) await_received(m, message[m]);
      if (m > 0) reduce(term, own + at, here);
      if (m == 0 && member_ == 0) copy(term, own + at, here);  // other members receive member 0's part into the result
    }
  }

  std::vector<BufferOffset> receive_buffers(std::int64_t elements) {
    std::vector<BufferOffset> out(n_);
    for (int m = 1; m < n_; ++m)
      if (m != member_) out[m] = stage(std::min(elements, chunk_elements(spec_)));
    return out;
  }

  void flat_all_reduce(std::int64_t elements) {
    std::vector<BufferOffset> buffers(n_);
    std::vector<std::int64_t> message(n_);
    for (int peer : peers()) {
      buffers[peer] = peer == 0 ? BufferOffset{BufferKind::out, 0} : stage(elements);
      message[peer] = receive(peer, buffers[peer], elements);
      send(peer, {BufferKind::in, 0}, elements);
    }
    for (int m = 0; m < n_; ++m) {
      if (m != member_) await_received(m, message[m]);
      BufferOffset term = m == member_ ? BufferOffset{BufferKind::in, 0} : buffers[m];
      if (m > 0) reduce(term, {BufferKind::out, 0}, elements);
      if (m == 0 && member_ == 0) copy(term, {BufferKind::out, 0}, elements);
    }
  }

  // Range r starts at its owner's successor, accumulates one term per step, and is complete at its owner; then the
  // results are sent round the ring.
  void ring_all_reduce(std::int64_t elements) {
    auto at = [&](BufferKind memory, int owner) {
      return BufferOffset{memory, flat_range(elements, n_, owner).begin * element_};
    };
    auto size = [&](int owner) { return flat_range(elements, n_, owner).size; };
    std::vector<RingStep> steps;
    for (int s = 0; s < n_ - 1; ++s)
      steps.push_back({at(BufferKind::out, ring(-s - 2)), size(ring(-s - 2)), at(BufferKind::in, ring(-s - 2)), false});
    for (int s = 0; s < n_ - 1; ++s)
      steps.push_back({at(BufferKind::out, ring(-s - 1)), size(ring(-s - 1)), {}, false});
    run_ring(at(BufferKind::in, ring(-1)), size(ring(-1)), steps);
  }

  // One step of the ring: receives from the predecessor and reduces `term`, if given, into the received data; the next
  // step sends the result to the successor.
  struct RingStep {
    BufferOffset to;
    std::int64_t elements = 0;
    std::optional<BufferOffset> term;
    bool sent_before = false;  // an earlier step sends from the memory that this one receives into
  };

  // Runs all steps; the first sends `from`. It proceeds by chunks, so that one is in transit while the next is reduced.
  // A member waits only for messages of earlier steps, or of earlier chunks of its step, and posts a receive before it
  // sends the message of the same number, so members cannot wait in a cycle.
  void run_ring(BufferOffset from, std::int64_t elements, const std::vector<RingStep>& steps) {
    const int next = ring(1), previous = ring(-1);
    std::int64_t longest = elements;
    for (const RingStep& step : steps) longest = std::max(longest, step.elements);
    const std::int64_t rounds = ceil_div(longest, chunk_elements(spec_));
    std::vector<std::int64_t> come,
        gone(static_cast<std::size_t>(
            rounds));  // numbers of messages: received, by step and chunk; sent, by chunk of the last step
    // Posts receives up to this one, step by step.
    auto post = [&](std::size_t step, std::int64_t c, bool must) {
      const std::size_t last = step * static_cast<std::size_t>(rounds) + static_cast<std::size_t>(c);
      while (step < steps.size() && come.size() <= last &&
             (must || received_[previous].posted - received_[previous].awaited < depth_)) {
        const RingStep& s = steps[come.size() / static_cast<std::size_t>(rounds)];
        const auto chunk = static_cast<std::int64_t>(come.size()) % rounds;
        if (s.sent_before && !must) return;
        if (s.sent_before) await_sent(next, gone[static_cast<std::size_t>(chunk)]);
        come.push_back(receive(previous, s.to + chunk * chunk_bytes(), size_of_chunk(s.elements, chunk)));
      }
    };
    auto pass = [&](std::size_t step, BufferOffset what, std::int64_t count, std::int64_t c) {
      post(step, c, true);
      gone[static_cast<std::size_t>(c)] = send(next, what + c * chunk_bytes(), size_of_chunk(count, c));
      post(step + 1, c, false);
    };
    for (std::int64_t c = 0; c < rounds; ++c) pass(0, from, elements, c);
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (std::int64_t c = 0; c < rounds; ++c) {
        const RingStep& step = steps[s];
        await_received(previous, come[s * static_cast<std::size_t>(rounds) + static_cast<std::size_t>(c)]);
        if (step.term)
          reduce(*step.term + c * chunk_bytes(), step.to + c * chunk_bytes(), size_of_chunk(step.elements, c));
        if (s + 1 < steps.size()) pass(s + 1, step.to, step.elements, c);
      }
  }

  // A member first keeps the half of all ranges that contains its own and sends the other half to the member that keeps
  // that one. It halves the kept ranges in the same way until one is left; then the results return by the same steps in
  // reverse (Rabenseifner, "Optimization of collective reduction operations", 2004).
  void recursive_all_reduce(std::int64_t elements) {
    auto begin = [&](int range) { return range == n_ ? elements : flat_range(elements, n_, range).begin; };
    auto at = [&](BufferKind memory, int range) { return BufferOffset{memory, begin(range) * element_}; };
    const BufferOffset buffer = n_ > 2 ? stage(begin(n_ / 4)) : BufferOffset{};
    for (int half = n_ / 2; half >= 1; half /= 2) {
      const int peer = member_ ^ half, kept = member_ / half * half, given = peer / half * half;
      const bool first = half == n_ / 2;
      const std::int64_t count = begin(kept + half) - begin(kept);
      const BufferOffset own = at(BufferKind::out, kept), to = first ? own : buffer;
      std::int64_t message = send_receive(peer, at(first ? BufferKind::in : BufferKind::out, given),
                                          begin(given + half) - begin(given), to, count);
      chunks(count, [&](std::int64_t offset, std::int64_t here) {
        await_received(peer, ++message);
        reduce((first ? at(BufferKind::in, kept) : buffer) + offset, own + offset, here);
      });
    }
    for (int half = 1; half < n_; half *= 2) {
      const int peer = member_ ^ half, have = member_ / half * half, get = peer / half * half;
      await_sent(peer, sent_[peer].posted);  // results are received into the memory that was sent before
      send_receive(peer, at(BufferKind::out, have), begin(have + half) - begin(have), at(BufferKind::out, get),
                   begin(get + half) - begin(get));
      await_received(peer, received_[peer].posted);
    }
  }

  // Sends to and receives from one peer, chunk by chunk; returns the number of the last message before.
  std::int64_t send_receive(int peer, BufferOffset from, std::int64_t sends, BufferOffset to, std::int64_t receives) {
    const std::int64_t before = received_[peer].posted;
    for (std::int64_t c = 0; c < ceil_div(std::max(sends, receives), chunk_elements(spec_)); ++c) {
      receive(peer, to + c * chunk_bytes(), size_of_chunk(receives, c));
      send(peer, from + c * chunk_bytes(), size_of_chunk(sends, c));
    }
    return before;
  }

  // --- boxes

  void reduce_scatter() {
    std::vector<BufferOffset> from(n_);
    std::vector<std::int64_t> size(n_);
    if (n_ == 1)
      return copy_box(BufferKind::in, spec_.in, spec_.sends[0], {BufferKind::out, 0}, spec_.out, whole_box(spec_.out));
    for (int m = 0; m < n_; ++m) {
      from[m] = packed(spec_.sends[m]);
      size[m] = count_of(spec_.in, spec_.sends[m]);
    }
    std::int64_t longest = *std::max_element(size.begin(), size.end());
    BufferOffset own = receive_place(whole_box(spec_.out));
    if (spec_.algorithm == Algorithm::ring) {
      BufferOffset buffer[2] = {stage(longest), stage(longest)};
      std::vector<RingStep> steps;
      for (int s = 0; s < n_ - 1; ++s) {
        const int takes = ring(-s - 2);
        steps.push_back({takes == member_ ? own : buffer[s % 2], size[takes], from[takes], s >= 2 && takes != member_});
      }
      run_ring(from[ring(-1)], size[ring(-1)], steps);
    } else {
      std::vector<BufferOffset> buffers = receive_buffers(size[member_]);
      for (std::int64_t c = 0; c < ceil_div(longest, chunk_elements(spec_)); ++c)
        reduce_round(c, from, size, own, buffers);
    }
    unpack(own, whole_box(spec_.out));
  }

  void all_gather() {
    if (n_ == 1) return copy_own();
    BufferOffset mine = packed(whole_box(spec_.in));
    std::vector<BufferOffset> to(n_);
    std::vector<std::int64_t> size(n_);
    for (int m = 0; m < n_; ++m) {
      to[m] = m == member_ ? mine : receive_place(spec_.receives[m]);
      size[m] = count_of(spec_.out, spec_.receives[m]);
    }
    if (spec_.algorithm == Algorithm::ring) {
      copy_own();
      std::vector<RingStep> steps;
      for (int s = 0; s < n_ - 1; ++s) steps.push_back({to[ring(-s - 1)], size[ring(-s - 1)], {}, false});
      run_ring(mine, size[member_], steps);
      for (int peer : peers()) unpack(to[peer], spec_.receives[peer]);
    } else {
      exchange(std::vector<BufferOffset>(n_, mine), std::vector<std::int64_t>(n_, size[member_]), to, size);
    }
  }

  void all_to_all() {
    std::vector<BufferOffset> from(n_), to(n_);
    std::vector<std::int64_t> sends(n_), receives(n_);
    for (int peer : peers()) {
      from[peer] = packed(spec_.sends[peer]);
      sends[peer] = count_of(spec_.in, spec_.sends[peer]);
      to[peer] = receive_place(spec_.receives[peer]);
      receives[peer] = count_of(spec_.out, spec_.receives[peer]);
    }
    exchange(from, sends, to, receives);
  }

  void copy_own() {
    copy_box(BufferKind::in, spec_.in, spec_.sends[member_], {BufferKind::out, 0}, spec_.out, spec_.receives[member_]);
  }

  // All pairs at once; the member's own box is copied while the messages are in transit.
  void exchange(const std::vector<BufferOffset>& from, const std::vector<std::int64_t>& sends,
                const std::vector<BufferOffset>& to, const std::vector<std::int64_t>& receives) {
    std::int64_t longest = 0;
    for (int peer : peers()) longest = std::max({longest, sends[peer], receives[peer]});
    for (std::int64_t c = 0; c < ceil_div(longest, chunk_elements(spec_)); ++c) {
      for (int peer : peers()) {
        receive(peer, to[peer] + c * chunk_bytes(), size_of_chunk(receives[peer], c));
        send(peer, from[peer] + c * chunk_bytes(), size_of_chunk(sends[peer], c));
      }
    }
    copy_own();
    for (int peer : peers()) {
      await_received(peer, received_[peer].posted);
      unpack(to[peer], spec_.receives[peer]);
    }
  }

  const CollectiveSpec& spec_;
  int member_, n_;
  std::int64_t depth_, element_;
  std::vector<Count> received_, sent_;  // by peer
  Program program_;
};
}  // namespace

bool uses_recursive_halving(const CollectiveSpec& spec) {
  return spec.kind == CollectiveKind::all_reduce && spec.algorithm == Algorithm::recursive &&
         (spec.members & (spec.members - 1)) == 0;
}

FlatRange flat_range(std::int64_t elements, int members, int index) {
  std::int64_t each = elements / members, longer = elements % members;
  return {each * index + std::min<std::int64_t>(index, longer), each + (index < longer ? 1 : 0)};
}

std::int64_t chunk_elements(const CollectiveSpec& spec) {
  return std::max<std::int64_t>(spec.chunk / size_of(spec.in.dtype), 1);
}

Program program_of(const CollectiveSpec& spec, int depth) { return Writer(spec, depth).write(); }

}  // namespace karez::comm
