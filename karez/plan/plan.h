// The Plan: actors, registers, blocks, links and communicators of one rank, as plain data. It is the only interface
// between compiler and runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/base/by_id.h"
#include "karez/base/id.h"
#include "karez/plan/collective_kind.h"
#include "karez/plan/namespace.h"
#include "karez/plan/stream_kind.h"
#include "karez/tensor/reduce.h"
#include "karez/tensor/tensor.h"

namespace karez::plan {

using DeviceId = Id<struct DeviceTag>;  // index in Plan::devices
using StreamId = Id<struct StreamTag>;
using BlockId = Id<struct BlockTag>;
using RegisterId = Id<struct RegisterTag>;
using ActorId = Id<struct ActorTag>;
using CommunicatorId = Id<struct CommunicatorTag>;

// Stands for the session, which produces the start registers and consumes the done registers.
inline constexpr ActorId session_actor{-1};

struct PlanDevice {
  int rank = 0;
  int device = 0;
  std::string kind = "cpu";
  bool operator==(const PlanDevice&) const = default;
};

struct Stream {
  DeviceId device;
  StreamKind kind = StreamKind::compute;
  int worker = 0;  // the worker thread that serves it, see stream_assignment.h
  bool operator==(const Stream&) const = default;
};

// constant: filled by Plan::setup when the plan is loaded, read-only afterwards. external: the part of the result
// `name` that the user holds on the device. Each launch provides its memory, and one register is all of the block.
enum class BlockKind { scratch, reg, variable, constant, external };
std::string_view name_of(BlockKind kind);

struct Block {
  BlockKind kind = BlockKind::scratch;
  DeviceId device;
  std::int64_t bytes = 0;
  std::string name;    // variables: "fc.weight"; the Session keys them by name and layout. external: the binding
  std::string layout;  // variables: "f32[10, 784@model]"
  bool operator==(const Block&) const = default;
};

// Memory on one device, written by one producer and read by its consumers. It has `slots` copies; slot i begins at
// offset + i * stride. In an external block, each slot is the memory of the launch that fills it.
struct Register {
  ActorId producer;
  std::vector<ActorId> consumers;  // each once; may contain session_actor
  int slots = 1;
  std::int64_t bytes = 0;  // of one slot; 0: control only
  BlockId block;           // invalid when bytes is 0
  std::int64_t offset = 0;
  std::int64_t stride = 0;
  std::string type;  // for display: "f32[64@data, 256]"
  bool operator==(const Register&) const;
};

// The location of an operand: in the current slot of one of the actor's registers, or at a fixed offset in a block.
struct Operand {
  RegisterId reg;           // invalid for an operand in a block
  BlockId block;            // invalid for an operand in a register
  std::int64_t offset = 0;  // bytes
  View view;
  bool operator==(const Operand&) const;
};

// A range [begin, end) of the acts of a launch, counted from 0; all acts if `end` is 0.
struct ActRange {
  int begin = 0, end = 0;
  bool all() const { return end == 0; }
  bool has(std::int64_t act) const { return all() || (act >= begin && act < end); }
  bool operator==(const ActRange&) const = default;
};

// One invocation of a kernel, which is given by its name. The kernel gets `workspace`, if set, as its last operand.
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
  int team = 1;       // threads; all replicas use the same number, because results depend on it
  ActRange acts;      // the acts of its actor in which it runs
  std::string where;  // "matmul at net.cc:12 (fc1)"
  bool operator==(const Call&) const;
};

// A box of a member's local tensor that is sent to, or received from, another member.
struct PeerBox {
  int peer = 0;                           // member number in the communicator
  std::vector<std::int64_t> begin, size;  // in the local tensor of the member that has the list
  bool operator==(const PeerBox&) const = default;
};

// One member's part in a collective.
struct Collective {
  CommunicatorId communicator;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::optional<Reduce> reduce = {};  // of all_reduce and reduce_scatter
  // One position in the communicator's sequence for each act of a launch, ascending. An act begins only at its turn.
  std::vector<int> turns = {0};
  Operand in, out;
  // One box for each member in order, including this member. Empty for all_reduce, which divides flat ranges.
  std::vector<PeerBox> sends, receives;
  std::optional<Operand> staging;
  std::string where;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;  // the same for all members
  bool operator==(const Collective&) const;
};

// An actor's end of a register. On every k-th act, an input with period k returns its slot, and an output fills one.
struct Port {
  RegisterId reg;
  int period = 1;
  bool operator==(const Port&) const = default;
};

enum class BodyKind {
  compute,     // runs `calls`
  input,       // fills its outputs from the feed that `binding` names: a source, or the device's part of an array
  fetch,       // copies its input to the device's part of the array that `binding` names, unless the input is that part
  state,       // grants access to variables and computes nothing
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

  std::string name;  // for display: "compute.3", "all_reduce fc1.weight.grad"
  StreamId stream;
  std::vector<Port> inputs, outputs;
  BodyKind body = BodyKind::compute;
  std::vector<Call> calls;
  std::optional<Collective> collective;
  std::string binding;
  std::vector<Operand> bound;  // input: the operands that the source writes, in order; fetch: the operand to read
  // One for each bound operand: {begin=[..], shape=[..]} of the logical tensor; empty for a fetch of the whole tensor.
  // An input may have several sets of slices, one for each act that reads the same batch. Act k uses set k; after the
  // last set, the next act begins a new batch with the first set.
  std::vector<Attrs> slices;
  int priority = 0;  // of the ready actors, the one with the smallest number acts first
  std::string where;
  bool operator==(const Actor&) const;
};

// A planned transfer between devices. The sum of the planned bytes equals the number of bytes counted at run time.
struct Transfer {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string axis;        // mesh axis
  std::string value;       // for display: "fc1.weight gradient f32[...]"
  std::int64_t bytes = 0;  // sent by this rank's devices in one launch
  bool operator==(const Transfer&) const = default;
};

struct Communicator {
  std::vector<PlanDevice> members;
  std::int64_t chunk = 1 << 18;  // bytes
  // The names of the collectives of one launch, in order. They are for display; only their number matters.
  std::vector<std::string> sequence;
  bool operator==(const Communicator&) const;
};

// A register that is sent to, or received from, another device.
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
  std::vector<Call> setup;  // calls that run once, when the plan is loaded, and compute constants
  std::uint64_t program_hash = 0;
  // The cost table for predictions, as `sbp::CostTable` prints it; "" if there is none. Launches do not read it.
  std::string costs;
  // For reports: the bytes that elements of data sets may occupy on a rank.
  std::int64_t data_bytes = 0;
  bool operator==(const Plan&) const;

  const Actor& actor(ActorId id) const { return actors[id]; }
  const Register& reg(RegisterId id) const { return registers[id]; }
  const Block& block(BlockId id) const { return blocks[id]; }
  const Stream& stream(StreamId id) const { return streams[id]; }
};

std::string print(const Plan& plan);  // `parse_plan(print(p)) == p`
Plan parse_plan(std::string_view text);
std::uint64_t rank_hash(const Plan& plan);  // a hash of all fields except names for display and the cost table

// Throws if the plan cannot run: ids out of range, a register that its producer or consumers do not list, operands
// outside of their slot or block, members of a communicator with sequences of different lengths, overlapping registers
// of a block, a cycle without tokens.
void verify(const Plan& plan);

// Returns the planned peak memory of each device: the total size of its blocks, without external blocks.
ById<DeviceId, std::int64_t> planned_bytes(const Plan& plan);

// Returns a readable report: actors, registers, peak memory per device, and each transfer with kind, axis and bytes.
std::string summary(const Plan& plan);

}  // namespace karez::plan
