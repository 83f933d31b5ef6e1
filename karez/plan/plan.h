// The Plan: actors, registers, blocks, links and communicators of one rank, as plain data. The waist between compile
// half and run half.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/base/by_id.h"
#include "karez/base/id.h"
#include "karez/plan/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::plan {

using DeviceId = Id<struct DeviceTag>;  // index in Plan::devices
using StreamId = Id<struct StreamTag>;
using BlockId = Id<struct BlockTag>;
using RegisterId = Id<struct RegisterTag>;
using ActorId = Id<struct ActorTag>;
using CommunicatorId = Id<struct CommunicatorTag>;

// The session itself as a neighbour: producer of `start` registers, consumer of `done` registers.
inline constexpr ActorId session_actor{-1};

struct PlanDevice {
  int rank = 0;
  int device = 0;
  std::string kind = "cpu";
  bool operator==(const PlanDevice&) const = default;
};

struct Stream {
  DeviceId device;
  std::string name;  // "compute", "comm", "host"
  int worker = 0;    // which worker thread serves it, see deal.h
  bool operator==(const Stream&) const = default;
};

// constant: filled by Plan::setup when loaded, read only after. external: results that the user holds, which are made
// anew for each launch.
enum class BlockKind { scratch, reg, variable, constant, external };
std::string_view name_of(BlockKind kind);

struct Block {
  BlockKind kind = BlockKind::scratch;
  DeviceId device;
  std::int64_t bytes = 0;
  std::string name;    // variables: "fc.weight"; the Session keys them by name and layout
  std::string layout;  // variables: "f32[10, 784@model]"
  bool operator==(const Block&) const = default;
};

// One memory on one device, written by one producer, read by its consumers; `slots` copies, slot i at offset + i *
// stride.
struct Register {
  ActorId producer;
  std::vector<ActorId> consumers;  // each once; may hold session_actor
  int slots = 1;
  std::int64_t bytes = 0;  // of one slot; 0: control only
  BlockId block;           // invalid when bytes is 0
  std::int64_t offset = 0;
  std::int64_t stride = 0;
  std::string type;  // for people: "f32[64@data, 256]"
  bool operator==(const Register&) const;
};

// Where a call's operand lies: in the slot its actor holds of a register, or at a fixed place of a block.
struct Operand {
  RegisterId reg;           // either this
  BlockId block;            // or this
  std::int64_t offset = 0;  // bytes
  View view;
  bool operator==(const Operand&) const;
};

// Some acts of a launch, counted from 0: from `begin` on to before `end`; where `end` is 0, all.
struct ActRange {
  int begin = 0, end = 0;
  bool all() const { return end == 0; }
  bool has(std::int64_t act) const { return all() || (act >= begin && act < end); }
  bool operator==(const ActRange&) const = default;
};

// A kernel by name with its attributes and operands. `workspace` (if any) is the last thing a kernel gets.
struct Call {
  Call();
  Call(const Call&);
  Call(Call&&) noexcept;
  Call& operator=(const Call&);
  Call& operator=(Call&&) noexcept;
  ~Call();

  std::string kernel;  // "onednn.matmul"
  Attrs attrs;
  std::vector<Operand> in, out;
  std::optional<Operand> workspace;
  int team = 1;       // threads; equal on all replicas, because results depend on it
  ActRange acts;      // in which of its actor's acts it runs
  std::string where;  // "matmul at net.cc:12 (fc1)"
  bool operator==(const Call&) const;
};

// A box of a member's local tensor that goes to, or comes from, another member.
struct PeerBox {
  int peer = 0;                           // member number in the communicator
  std::vector<std::int64_t> begin, size;  // in the local tensor of the one who holds this list
  bool operator==(const PeerBox&) const = default;
};

// One collective as one member sees it.
struct Collective {
  CommunicatorId communicator;
  std::string kind;    // "all_reduce", "reduce_scatter", "all_gather", "all_to_all"
  std::string reduce;  // "sum", "max", "min" or ""
  std::vector<int> turns = {
      0};  // by act of a launch, rising: positions in the communicator's sequence; it begins only at its turn
  Operand in, out;
  std::vector<PeerBox> sends,
      receives;  // one per member and in their order, the own included; all_reduce: empty (flat ranges)
  std::optional<Operand> staging;
  std::string where;
  std::string algorithm = "direct";  // the same for all members; karez/comm/collective.h names them
  bool operator==(const Collective&) const;
};

// A port's period k: it fills, frees or returns on every k-th act.
struct Port {
  RegisterId reg;
  int period = 1;
  bool operator==(const Port&) const = default;
};

enum class BodyKind {
  compute,     // runs `calls`
  input,       // fills its outputs from what `binding` is fed with: a source, or its device's part of an array
  fetch,       // copies its input to its device's part of the array that `binding` names
  state,       // grants variables: no work
  collective,  // runs `collective`
};
std::string_view name_of(BodyKind kind);

struct Actor {
  Actor();
  Actor(const Actor&);
  Actor(Actor&&) noexcept;
  Actor& operator=(const Actor&);
  Actor& operator=(Actor&&) noexcept;
  ~Actor();

  std::string name;  // for people: "compute.3", "all_reduce fc1.weight.grad"
  StreamId stream;
  std::vector<Port> inputs, outputs;
  BodyKind body = BodyKind::compute;
  std::vector<Call> calls;
  std::optional<Collective> collective;
  std::string binding;
  std::vector<Operand> bound;  // input: what the source writes, in order; fetch: what is read
  // Per bound operand, {begin=[..], shape=[..]} of the logical tensor; fetch: none if it is the whole. Of an input
  // several times as many: act k reads with the k-th lot, and after the last lot from the first, of the source's next
  // batch.
  std::vector<Attrs> slices;
  int priority = 0;  // smaller acts first
  std::string where;
  bool operator==(const Actor&) const;
};

// A transfer between two devices over links, as the plan foresees it: what `sum(planned) == sum(counted)` sums.
struct Transfer {
  std::string kind;        // "all_reduce"
  std::string axis;        // mesh axis
  std::string value;       // for people: "fc1.weight gradient f32[...]"
  std::int64_t bytes = 0;  // sent by this rank's devices in one launch
  bool operator==(const Transfer&) const = default;
};

struct Communicator {
  std::vector<PlanDevice> members;
  std::int64_t chunk = 1 << 18;       // bytes
  std::vector<std::string> sequence;  // what runs in one step, in order (names for people; the length counts)
  bool operator==(const Communicator&) const;
};

// A register whose contents go to (send) or come from (receive) a device of another actor chain.
struct Link {
  RegisterId reg;
  PlanDevice peer;
  bool send = true;
  std::int64_t chunk = 1 << 18;
  bool operator==(const Link&) const = default;
};

struct Plan {
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  std::string name;
  int world = 1;  // ranks
  int rank = 0;
  ById<DeviceId, PlanDevice> devices;
  ById<StreamId, Stream> streams;
  ById<BlockId, Block> blocks;
  ById<RegisterId, Register> registers;
  ById<ActorId, Actor> actors;
  std::vector<Link> links;
  ById<CommunicatorId, Communicator> communicators;
  std::vector<Transfer> transfers;
  std::vector<Call> setup;  // run once when loaded: constants
  std::uint64_t program_hash = 0;
  std::string costs;  // the cost table by which the plan is predicted, as `sbp::CostTable` prints it; "": none. No
                      // launch reads it
  bool operator==(const Plan&) const;

  const Actor& actor(ActorId id) const { return actors[id]; }
  const Register& reg(RegisterId id) const { return registers[id]; }
  const Block& block(BlockId id) const { return blocks[id]; }
  const Stream& stream(StreamId id) const { return streams[id]; }
};

std::string print(const Plan& plan);  // `parse_plan(print(p)) == p`
Plan parse_plan(std::string_view text);
void save(const Plan& plan, const std::string& path);
Plan load_plan(const std::string& path);
std::uint64_t rank_hash(const Plan& plan);  // of everything but the lines for people and the cost table

// Throws on what cannot run: ids out of range, a register whose producer or consumers do not list it, operands outside
// their slot or block, two members of one sequence that disagree in length, overlapping registers of a block, a cycle
// without tokens.
void verify(const Plan& plan);

// Bytes of all its blocks on each device: the peak, as planned.
ById<DeviceId, std::int64_t> planned_bytes(const Plan& plan);

// A page for people: actors, registers, each transfer with kind, axis and bytes, peak memory per device.
std::string summary(const Plan& plan);

}  // namespace karez::plan
