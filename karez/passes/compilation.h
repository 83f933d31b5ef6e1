// The data that passes exchange: the graph, streams, segments, the local program and finally the plan.
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

// An Evaluate function runs a call in host memory. Its arguments are the call and the bytes of each operand, arranged
// as the operand's view says; it returns the bytes of each result. The caller of the compiler implements it with the
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
  int rank = 0;     // the rank for which the plan is made
  int world = 1;    // number of ranks
  int team = 1;     // threads of one kernel call
  int workers = 1;  // worker threads that serve this rank's streams
  int slots = 2;    // maximum number of slots of a register that connects two streams and is filled once per launch
  int microbatches = 1;
  std::int64_t batch = 0;   // with micro-batches: rows of the whole batch; 0: rows of the first input with dimensions
  std::int64_t memory = 0;  // bytes that the plan may use on each device (see fit_memory.h); 0: no limit
  std::int64_t data_bytes = 0;     // bytes of data sets on each device, which `memory` does not include; for messages
  std::int64_t fold_bytes = 4096;  // maximum bytes of a constant that folding creates
  std::optional<DType> amp;        // mixed precision: the operand type of matrix products and convolutions
  std::vector<std::string> remat;  // globs of modules whose values are recomputed for gradients
  bool reassociate = false;        // whether multiplications, not only additions, may be regrouped to share terms
  std::vector<std::string> off;    // names of passes that are switched off
  bool check_nan = false;          // whether kernels check their results for NaN
  bool predict = true;             // whether the seconds of a step are needed if no layout depends on them
  bool keep_text = false;          // whether the result of each pass is kept as text
};

using SegmentId = Id<struct SegmentTag>;
using LocalId = Id<struct LocalTag>;
using OperandLayouts = ById<NodeId, std::vector<Layout>>;  // the layout in which each node reads each operand
using Streams = ById<NodeId, StreamKind>;
using DimensionOrders = ById<ValueId, Ints>;  // the dimensions of each value, outermost first; empty: row-major

// Nodes that become one actor on each device. They run on one stream, in the order of the graph.
struct Segment {
  StreamKind stream = StreamKind::compute;
  std::vector<NodeId> nodes;
  int mesh = 0;  // the mesh of the segment's results, as an index into Graph::meshes
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

// The priority of a segment's actors when several actors are ready: the actor with the smallest number acts first.
// Segments act in the order of the program. Among segments that act once for each micro-batch, the later segment has
// priority, so that the memory of one micro-batch is freed before the next one begins.
int priority_of(const Graph& graph, const Segmentation& segmentation, SegmentId segment);

struct SlotAssignment {
  SlotAssignment();
  SlotAssignment(const SlotAssignment&);
  SlotAssignment(SlotAssignment&&) noexcept;
  SlotAssignment& operator=(const SlotAssignment&);
  SlotAssignment& operator=(SlotAssignment&&) noexcept;
  ~SlotAssignment();

  double interval = 0;       // predicted seconds between consecutive launches; 0: not computed
  std::string memory_note;   // text that lists the changes made to fit a memory limit; "": none
  ById<ValueId, int> slots;  // number of slots of the register that carries the value between segments
  // For each box node that crosses devices: the position of each act in the sequence of its communicator.
  ById<NodeId, std::vector<int>> turns;
};

// The part of a value on one device, or a copy of that part with other strides. Aliases share the memory of their root.
struct LocalValue {
  ValueId value;   // invalid for a copy that a pass created
  int device = 0;  // own device number; -1: the rank's host
  Box box;         // the part of the logical tensor
  View view;
  LocalId root;             // the local value that owns the memory; this value itself if it owns its memory
  std::int64_t offset = 0;  // in bytes, from the root's first byte
  SegmentId segment;        // of a root: the segment that produces it
  int variable = -1;        // index into Graph::variables if the memory is that of a variable
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
  NodeId node;  // the node that the call implements
  // Nodes whose calls were merged into this one, in their order: it computes one expression of its operands, each
  // element from elements of the same index.
  std::vector<NodeId> merged;
  plan::ActRange acts;  // the acts of the actor in which the call runs
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
  NodeId collective;                   // the box node of a comm segment
  std::vector<LocalId> reads, writes;  // of a collective, an input or a fetch: the values that it reads and writes
};

// The part of a graph output on one own device.
struct LocalOutput {
  std::string output;
  int device = 0;
  LocalId value;
};

// This rank's part of the program: the values and calls of its devices.
struct LocalProgram {
  LocalProgram();
  LocalProgram(const LocalProgram&);
  LocalProgram(LocalProgram&&) noexcept;
  LocalProgram& operator=(const LocalProgram&);
  LocalProgram& operator=(LocalProgram&&) noexcept;
  ~LocalProgram();

  ById<LocalId, LocalValue> values;
  std::vector<LocalSegment> segments;  // by segment, then by device
  std::vector<LocalCall> setup;
  int copies = 0;  // number of copies that were inserted because kernels require other strides
  std::vector<LocalOutput> outputs;
};

// The compiler's input, and the results of passes that later passes read. Only the pipeline writes to a Compilation: a
// pass takes arguments and returns its result.
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

  double cost = 0, cost_bound = 0;  // seconds of a step with the layouts that shard chose, and the proven lower bound
  bool optimal = false;
  std::string shard_report;  // "optimal" or "gap <= 3.1 %", with the method
  OperandLayouts operand_layouts;
  std::shared_ptr<const Graph> before_remat;           // if memory is limited: the program before recompute
  std::shared_ptr<const struct ShardedGraph> sharded;  // if memory is limited: the program with its layouts
  Streams stream;
  Segmentation segmentation;
  SlotAssignment slot_assignment;
  DimensionOrders orders;
  std::int64_t hoist_bytes = INT64_MAX;  // maximum bytes per device for the results of calls that hoist moves to setup
  LocalProgram local;
  Plan plan;
  std::vector<PassTime> passes;
};

// Lists each device that this rank has on the meshes of the graph. Own device numbers are indices into this list.
std::vector<DeviceName> own_devices(const Graph& graph, int rank);
// Returns the device's position in the mesh; -1 if the device is not in the mesh.
int position_on(const Mesh& mesh, DeviceName device);

}  // namespace karez::passes
