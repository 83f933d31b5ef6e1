// LocalProgramBuilder: creates the local values and calls of a rank's devices, one device at a time.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

class LocalProgramBuilder {
 public:
  LocalProgramBuilder(const Graph& graph, const DimensionOrders& orders, const KernelCatalog& catalog,
                      const CompileOptions& options);

 protected:
  LocalSegment& current_segment() { return program_.segments.back(); }
  void begin_segment(SegmentId id, int device);
  LocalValue& local(LocalId id) { return program_.values[id]; }
  // Returns the current device's part of a value.
  LocalId at(ValueId value) const { return local_ids_[static_cast<std::size_t>(device_)][value]; }
  void define(ValueId value, LocalId id) { local_ids_[static_cast<std::size_t>(device_)][value] = id; }
  // Returns the position of the current device in the value's mesh, or -1 if the device is not in the mesh.
  int position(ValueId value) const;
  bool is_local(ValueId value) const { return position(value) >= 0; }
  Box box_of(ValueId value) const;

  LocalId add(LocalValue value);
  LocalValue new_value(ValueId value, View view, Box box);
  // Returns the view of a value that this device computes: dense, in the order that was chosen for the value.
  View dense_view(ValueId value, const Shape& shape) const;
  LocalId add_window(ValueId value, LocalId source, View view, std::int64_t offset, Box box);
  // Adds a window with strides 0 on one element, which is filled when the plan is loaded.
  LocalId add_splat(ValueId value, DType dtype, const Attr& number, const Box& box);

  // Returns a copy of `source` with the strides of `view`. Adds the copy if the segment does not have it yet.
  LocalId copy_to(LocalId source, const View& view);
  // Copies a collective's operand if it does not have the order that all members use.
  void make_dense(ValueId value);
  // Chooses the kernel for exactly the strides of the call.
  void choose_kernel(LocalCall& call);
  // Chooses the kernel and adds the call to the segment. If a kernel for other input strides costs less, including the
  // copies that produce these strides, adds the copies before the call.
  void add_call(LocalCall call, const Cost& work);
  int team_of(const Cost& work) const;

  const Graph& graph_;
  std::vector<DeviceName> own_;
  LocalProgram program_;
  int device_ = 0;  // the current device
  NodeId node_;     // the current node

 private:
  const DimensionOrders& orders_;
  const KernelCatalog& catalog_;
  const CompileOptions& options_;
  std::vector<ById<ValueId, LocalId>> local_ids_;  // by own device
  std::map<std::tuple<int, DType, std::string>, LocalId> splats_;
  std::map<std::pair<LocalId, std::string>, LocalId> copies_;  // within one local segment
};

}  // namespace karez::passes
