// What the passes hand on: the graph, then the order, segments, local program, and at last the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/graph/op.h"
#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"
#include "karez/plan/pass_time.h"
#include "karez/plan/plan.h"
#include "karez/sbp/cost.h"

namespace karez::passes {

// Runs a call on host bytes: one byte vector per operand in its view. The caller of the compiler backs it with the
// plain kernels.
using HostBytes = std::vector<std::byte>;
using Evaluate = std::function<std::vector<HostBytes>(const CallSpec&, const std::vector<HostBytes>&)>;

struct CompileOptions {
  CompileOptions();
  CompileOptions(const CompileOptions&);
  CompileOptions(CompileOptions&&) noexcept;
  CompileOptions& operator=(const CompileOptions&);
  CompileOptions& operator=(CompileOptions&&) noexcept;
  ~CompileOptions();

  CostTable costs;
  int rank = 0;
  int world = 1;
  int team = 1;     // threads of one kernel call
  int workers = 1;  // worker threads that serve this rank's streams
  int slots = 2;    // at most, of registers between streams that are filled once a launch
  int microbatches = 1;
  std::int64_t batch =
      0;  // the whole one's size, where there are micro-batches; 0: of the first input that has dimensions
  std::int64_t memory = 0;         // bytes of each device that the plan may take (see fit.h). 0: no limit
  std::int64_t fold_bytes = 4096;  // larger constants are not made by folding
  std::optional<DType> amp;        // mixed precision: products in this type
  std::vector<std::string> remat;  // modules, by glob, whose values gradients compute again
  bool reassociate = false;        // products too may be paired otherwise where that shares work
  std::vector<std::string> off;    // passes switched off by name
  bool check_nan = false;          // kernels look at what they make
  bool keep_text = false;          // keep what each pass made, as text
};

enum class StreamKind { host, compute, comm };
std::string_view name_of(StreamKind kind);

using SegmentId = Id<struct SegmentTag>;
using LocalId = Id<struct LocalTag>;
using OperandLayouts = ById<NodeId, std::vector<Layout>>;  // by operand: the layout that the node takes it in
using Streams = ById<NodeId, StreamKind>;
using DimensionOrders = ById<ValueId, Ints>;  // dimensions from the outermost in memory; empty: row-major

// Nodes that become one actor on each device: an interval of the order on one stream.
struct Segment {
  StreamKind stream = StreamKind::compute;
  std::vector<NodeId> nodes;
  int mesh = 0;  // index in Graph::meshes: where its results lie
};

struct Segmentation {
  Segmentation();
  Segmentation(const Segmentation&);
  Segmentation(Segmentation&&) noexcept;
  Segmentation& operator=(const Segmentation&);
  Segmentation& operator=(Segmentation&&) noexcept;
  ~Segmentation();

  ById<SegmentId, Segment> segments;  // producers before consumers
  ById<NodeId, SegmentId> segment_of;
};

// Which actor of a segment acts first if several may: smaller ones. Segments stand in the program's order; among those
// of micro-batches who is nearer to the end comes first, so that a micro-batch under way makes room before another one
// begins.
int priority_of(const Graph& graph, const Segmentation& segmentation, SegmentId segment);

struct SlotAssignment {
  SlotAssignment();
  SlotAssignment(const SlotAssignment&);
  SlotAssignment(SlotAssignment&&) noexcept;
  SlotAssignment& operator=(const SlotAssignment&);
  SlotAssignment& operator=(SlotAssignment&&) noexcept;
  ~SlotAssignment();

  double interval = 0;       // predicted seconds between launches that follow each other; 0: not looked for
  std::string memory_note;   // what a limit on memory did to the program, in lines for people; "": nothing
  ById<ValueId, int> slots;  // of the register that carries it between segments
  ById<NodeId, std::vector<int>>
      turns;  // of box nodes that cross devices, by act: positions in the sequence of their axis' communicators
};

// What one device holds of one value, or a copy of it in other strides. Aliases share the bytes of their root.
struct LocalValue {
  ValueId value;   // invalid: made by a pass (a copy)
  int device = 0;  // own device number; -1: the rank's host
  Box box;         // of the logical tensor
  View view;
  LocalId root;             // the local value whose bytes these are; itself if it has its own
  std::int64_t offset = 0;  // bytes from the root's first
  SegmentId segment;        // that produces it (of a root)
  int variable = -1;        // index in Graph::variables if its bytes are a variable's
  bool constant = false;    // filled by the plan's setup
};

struct LocalCall {
  LocalCall();
  LocalCall(const LocalCall&);
  LocalCall(LocalCall&&) noexcept;
  LocalCall& operator=(const LocalCall&);
  LocalCall& operator=(LocalCall&&) noexcept;
  ~LocalCall();

  CallSpec spec;
  std::vector<LocalId> in, out;
  std::string kernel;  // chosen by localise and fuse
  std::int64_t workspace = 0;
  NodeId node;          // where it came from
  plan::ActRange acts;  // of its actor, in which it runs
};

// One segment on one own device.
struct LocalSegment {
  LocalSegment();
  LocalSegment(SegmentId segment, int device);
  LocalSegment(const LocalSegment&);
  LocalSegment(LocalSegment&&) noexcept;
  LocalSegment& operator=(const LocalSegment&);
  LocalSegment& operator=(LocalSegment&&) noexcept;
  ~LocalSegment();

  SegmentId segment;
  int device = 0;
  std::vector<LocalCall> calls;
  NodeId collective;                   // of a comm segment: its box node
  std::vector<LocalId> reads, writes;  // collectives, inputs and fetches: local values beside those of calls
};

// One own device's part of a graph output.
struct LocalOutput {
  std::string output;
  int device = 0;
  LocalId value;
};

// This rank's part of the program: what its devices hold and call.
struct LocalProgram {
  LocalProgram();
  LocalProgram(const LocalProgram&);
  LocalProgram(LocalProgram&&) noexcept;
  LocalProgram& operator=(const LocalProgram&);
  LocalProgram& operator=(LocalProgram&&) noexcept;
  ~LocalProgram();

  ById<LocalId, LocalValue> values;
  std::vector<LocalSegment> segments;  // in the order of segments, devices within
  std::vector<LocalCall> setup;
  int copies = 0;  // inserted because a kernel takes other strides
  std::vector<LocalOutput> outputs;
};

// What goes in, and what each pass made that later ones read. Only the pipeline writes it: a pass takes what it needs
// and returns what it makes.
struct Compilation {
  Compilation();
  Compilation(const Compilation&);
  Compilation(Compilation&&) noexcept;
  Compilation& operator=(const Compilation&);
  Compilation& operator=(Compilation&&) noexcept;
  ~Compilation();

  Graph graph;
  const OpTable* ops = nullptr;
  const KernelCatalog* catalog = nullptr;
  Evaluate evaluate;
  CompileOptions options;

  double cost = 0, cost_bound = 0;  // of shard, seconds: of the choice, and proven lower bound
  bool optimal = false;
  std::string shard_report;  // "optimal" or "gap <= 3.1 %", with the method
  OperandLayouts wanted;
  std::shared_ptr<const Graph> before_remat;           // where memory is limited: the program before recompute
  std::shared_ptr<const struct ShardedGraph> sharded;  // and as it is laid
  Streams stream;
  Segmentation segmentation;
  SlotAssignment slot_assignment;
  DimensionOrders orders;
  std::int64_t hoist_bytes = INT64_MAX;  // that calls moved to the set-up may make on each device
  LocalProgram local;
  Plan plan;
  std::vector<PassTime> passes;
};

// This rank's devices on any mesh of the graph, each once: its own device numbers count along this list.
std::vector<DeviceName> own_devices(const Graph& graph, int rank);
// Where the device stands in the mesh; -1: it is not part of it.
int position_on(const Mesh& mesh, DeviceName device);

}  // namespace karez::passes
