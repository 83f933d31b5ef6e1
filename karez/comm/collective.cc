// Collectives: names, checks of a spec, byte formulas, and the run that executes a program.
#include "karez/comm/collective.h"

#include <algorithm>
#include <limits>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/box_copy.h"
#include "karez/comm/program.h"

namespace karez::comm {
namespace {
constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all, CollectiveKind::transfer};
constexpr Algorithm algorithms[] = {Algorithm::ring, Algorithm::direct, Algorithm::flat, Algorithm::recursive};

template <class Item, std::size_t N>
Item from_name(const Item (&items)[N], std::string_view name, std::string_view what) {
  for (Item item : items)
    if (name_of(item) == name) return item;
  fail("no ", what, " is called '", name, "'; there are ", join(items, ", ", [](Item item) { return name_of(item); }));
}

std::string print(const TensorBox& box) { return cat(box.begin, "+", box.size); }

void check_box(const CollectiveSpec& spec, const View& view, const TensorBox& box, std::string_view list, int member) {
  if (count_of(view, box) == 0 && box.begin.size() == box.size.size()) return;
  bool inside = box.begin.size() == view.shape.size() && box.size.size() == view.shape.size();
  for (std::size_t d = 0; inside && d < view.shape.size(); ++d)
    inside = box.begin[d] >= 0 && box.size[d] >= 0 && box.begin[d] + box.size[d] <= view.shape[d];
  if (!inside) fail(name_of(spec.kind), ": ", list, "[", member, "] is the box ", print(box), ", outside ", view);
}

void require_same_size(const CollectiveSpec& spec, const TensorBox& send, const TensorBox& receive) {
  bool none = count_of(spec.in, send) == 0 && count_of(spec.out, receive) == 0;
  if (!none && send.size != receive.size)
    fail(name_of(spec.kind), ": member ", spec.member, " sends itself a box of ", send.size, " but receives one of ",
         receive.size);
}

std::int64_t r64(std::int64_t bytes) { return round_up(bytes, 64); }
}  // namespace

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::transfer: return "transfer";
  }
  return "?";
}

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::direct: return "direct";
    case Algorithm::flat: return "flat";
    case Algorithm::recursive: return "recursive";
  }
  return "?";
}

CollectiveKind kind_from(std::string_view name) { return from_name(kinds, name, "collective"); }
Algorithm algorithm_from(std::string_view name) { return from_name(algorithms, name, "algorithm of collectives"); }

void check(const CollectiveSpec& spec) {
  std::string_view name = name_of(spec.kind);
  require(spec.members >= 1 && spec.member >= 0 && spec.member < spec.members, name,
          ": member index out of range: ", spec.member, " of ", spec.members);
  require(spec.chunk >= 1, name, ": chunk must be at least 1 byte, got ", spec.chunk, " bytes");
  require(spec.in.dtype == spec.out.dtype, name, ": data types differ: from ", spec.in, " to ", spec.out);
  bool reduces = spec.kind == CollectiveKind::all_reduce || spec.kind == CollectiveKind::reduce_scatter;
  require(!reduces || spec.reduce != nullptr || spec.members == 1, name, ": no reduce function for ", spec.in);
  if (spec.kind == CollectiveKind::all_reduce) {
    bool same = spec.in.shape == spec.out.shape && same_order(spec.in.shape, spec.in.strides, spec.out.strides);
    require(same && is_dense(spec.in.shape, spec.in.strides), name, ": from ", spec.in, " to ", spec.out,
            "; both must be the same dense view");
    return;
  }
  auto members = static_cast<std::size_t>(spec.members);
  require(spec.sends.size() == members && spec.receives.size() == members, name, ": ", spec.sends.size(), " sends and ",
          spec.receives.size(), " receives for ", members, " members");
  for (int m = 0; m < spec.members; ++m) {
    check_box(spec, spec.in, spec.sends[m], "sends", m);
    check_box(spec, spec.out, spec.receives[m], "receives", m);
    if (spec.kind == CollectiveKind::reduce_scatter && count_of(spec.out, spec.receives[m]) != spec.out.count())
      fail(name, ": receives[", m, "] is the box ", print(spec.receives[m]), ", not all of ", spec.out);
    if (spec.kind == CollectiveKind::all_gather && count_of(spec.in, spec.sends[m]) != spec.in.count())
      fail(name, ": sends[", m, "] is the box ", print(spec.sends[m]), ", not all of ", spec.in);
  }
  require_same_size(spec, spec.sends[spec.member], spec.receives[spec.member]);
}

std::int64_t staging_bytes(const CollectiveSpec& spec) {
  if (spec.members == 1) return 0;
  std::int64_t element = size_of(spec.in.dtype), others = spec.members - 1, sum = 0;
  auto add = [&](const View& view, const TensorBox& box) {
    if (!is_contiguous(view, box)) sum += r64(count_of(view, box) * element);
  };
  auto received = [&](std::int64_t elements) {
    return others * r64(std::min(elements, chunk_elements(spec)) * element);
  };
  switch (spec.kind) {
    case CollectiveKind::all_reduce:
      if (spec.algorithm == Algorithm::flat) return others * r64(spec.in.count() * element);
      if (uses_recursive_halving(spec))
        return spec.members == 2 ? 0 : r64(flat_range(spec.in.count(), spec.members, spec.members / 4).begin * element);
      return spec.algorithm == Algorithm::ring ? 0 : received(flat_range(spec.in.count(), spec.members, 0).size);
    case CollectiveKind::reduce_scatter: {
      std::int64_t longest = 0;
      for (const TensorBox& box : spec.sends) {
        add(spec.in, box);
        longest = std::max(longest, count_of(spec.in, box));
      }
      add(spec.out, whole_box(spec.out));
      return sum + (spec.algorithm == Algorithm::ring ? 2 * r64(longest * element) : received(spec.out.count()));
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

std::int64_t bytes_sent(const CollectiveSpec& spec) {
  std::int64_t element = size_of(spec.in.dtype), others = spec.members - 1, elements = 0;
  bool ring = spec.algorithm == Algorithm::ring;
  int next = (spec.member + 1) % spec.members;
  switch (spec.kind) {
    case CollectiveKind::all_reduce: {
      std::int64_t all = spec.in.count(), own = flat_range(all, spec.members, spec.member).size;
      if (spec.algorithm == Algorithm::flat) return others * all * element;
      if (uses_recursive_halving(spec)) {
        std::int64_t back = 0;
        for (int have = 1; have < spec.members; have *= 2)
          for (int r = spec.member / have * have; r < spec.member / have * have + have; ++r)
            back += flat_range(all, spec.members, r).size;
        return (all - own + back) * element;
      }
      // Both send the other members' ranges. Then `direct` sends its own result to all; `ring` forwards all results but
      // its successor's.
      return (all - own + (ring ? all - flat_range(all, spec.members, next).size : others * own)) * element;
    }
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer:
      for (int m = 0; m < spec.members; ++m)
        if (m != spec.member) elements += count_of(spec.in, spec.sends[m]);
      return elements * element;
    case CollectiveKind::all_gather:
      if (!ring) return others * spec.in.count() * element;
      for (int m = 0; m < spec.members; ++m)
        if (m != next) elements += count_of(spec.out, spec.receives[m]);
      return elements * element;
  }
  return 0;
}

std::int64_t planned_bytes(CollectiveKind kind, Algorithm algorithm, int members, std::int64_t bytes,
                           std::int64_t own) {
  std::int64_t others = members - 1;
  switch (kind) {
    case CollectiveKind::all_reduce: return checked_mul(others * (algorithm == Algorithm::flat ? members : 2), bytes);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather: return checked_mul(others, bytes);
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer: return bytes - own;
  }
  return 0;
}

namespace {
std::vector<PlannedMessage> messages_of(const Program& program) {
  std::vector<PlannedMessage> out;
  for (const Instruction& step : program.steps)
    if (step.opcode == Instruction::Opcode::receive || step.opcode == Instruction::Opcode::send)
      out.push_back({step.peer, step.opcode == Instruction::Opcode::send, step.count});
  return out;
}
}  // namespace

std::vector<PlannedMessage> messages_of(const CollectiveSpec& spec) {
  check(spec);
  return messages_of(program_of(spec, 1));
}

std::vector<int> peers_of(const CollectiveSpec& spec) {
  std::vector<int> peers;
  for (const PlannedMessage& message : messages_of(spec)) peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

CollectiveRun::CollectiveRun(CollectiveSpec spec, Endpoint& endpoint)
    : spec_(std::move(spec)),
      endpoint_(&endpoint),
      received_(static_cast<std::size_t>(spec_.members)),
      sent_(static_cast<std::size_t>(spec_.members)) {
  check(spec_);
  require(endpoint.member() == spec_.member && endpoint.members() == spec_.members, name_of(spec_.kind), ": member ",
          spec_.member, " of ", spec_.members, " runs on the endpoint of member ", endpoint.member(), " of ",
          endpoint.members());
  int depth = std::numeric_limits<int>::max();
  for (int peer = 0; peer < spec_.members; ++peer)
    if (endpoint.has_link(peer)) depth = std::min(depth, endpoint.link(peer).depth());
  program_ = std::make_unique<const Program>(program_of(spec_, depth));
  for (const PlannedMessage& message : messages_of(*program_))
    require(endpoint.has_link(message.peer), name_of(spec_.kind), ": member ", spec_.member, " of ", spec_.members,
            " has no link to member ", message.peer);
  require(program_->staging <= staging_bytes(spec_), name_of(spec_.kind), ": uses ", program_->staging,
          " bytes of staging, more than the formula's ", staging_bytes(spec_));
}

CollectiveRun::CollectiveRun(CollectiveRun&&) noexcept = default;
CollectiveRun& CollectiveRun::operator=(CollectiveRun&&) noexcept = default;
CollectiveRun::~CollectiveRun() = default;

void CollectiveRun::start(const std::byte* in, std::byte* out, std::byte* staging) {
  require(!active_, name_of(spec_.kind), ": started again before it finished");
  require(staging != nullptr || program_->staging == 0, name_of(spec_.kind), ": needs ", program_->staging,
          " bytes of staging");
  in_ = in;
  out_ = out;
  staging_ = staging;
  next_ = 0;
  active_ = true;
  for (int peer = 0; peer < spec_.members; ++peer) {
    if (!endpoint_->has_link(peer)) continue;
    received_[peer] = endpoint_->link(peer).received();
    sent_[peer] = endpoint_->link(peer).sent();
  }
}

int CollectiveRun::awaited() const {
  if (!active_ || next_ >= program_->steps.size()) return -1;
  const Instruction& step = program_->steps[next_];
  return step.opcode == Instruction::Opcode::await_received || step.opcode == Instruction::Opcode::await_sent
             ? step.peer
             : -1;
}

bool CollectiveRun::advance() {
  if (!active_) return true;
  endpoint_->notifier().acknowledge();
  bool failed =
      endpoint_->notifier().failed();  // read before the counters: messages that arrived before a failure count
  auto wait = [&] {
    if (failed) endpoint_->check();
    return false;
  };
  auto read = [this](BufferOffset p) {
    return (p.memory == BufferKind::in ? in_ : p.memory == BufferKind::out ? out_ : staging_) + p.offset;
  };
  auto write = [this](BufferOffset p) { return (p.memory == BufferKind::out ? out_ : staging_) + p.offset; };
  for (; next_ < program_->steps.size(); ++next_) {
    const Instruction& step = program_->steps[next_];
    switch (step.opcode) {
      case Instruction::Opcode::receive: endpoint_->link(step.peer).post_receive(write(step.to), step.count); break;
      case Instruction::Opcode::send: endpoint_->link(step.peer).send(read(step.from), step.count); break;
      case Instruction::Opcode::await_received:
        if (endpoint_->link(step.peer).received() < received_[step.peer] + step.count) return wait();
        break;
      case Instruction::Opcode::await_sent:
        if (endpoint_->link(step.peer).sent() < sent_[step.peer] + step.count) return wait();
        break;
      case Instruction::Opcode::copy:
        copy_bytes(write(step.to), read(step.from), static_cast<std::size_t>(step.count));
        break;
      case Instruction::Opcode::copy_box:
        program_->boxes[static_cast<std::size_t>(step.count)].run(read(step.from), write(step.to));
        break;
      case Instruction::Opcode::reduce: spec_.reduce(write(step.to), read(step.from), step.count); break;
    }
  }
  active_ = false;
  return true;
}

}  // namespace karez::comm
