// What users name of the rooms below: brought up into `karez`, and nothing else, so that a program may call its own
// types Block, Node or Batch.
#pragma once

#include "base/attrs.h"
#include "base/error.h"
#include "data/source.h"
#include "device/host_array.h"
#include "graph/op.h"
#include "kernels/kernel.h"
#include "plan/catalog.h"
#include "plan/counters.h"
#include "plan/pass_time.h"
#include "sbp/cost.h"
#include "sbp/layout_rule.h"
#include "sbp/sbp.h"

namespace karez {

using base::Attrs;
using base::cat;
using base::Error;
using base::ErrorKind;
using base::exit_code;
using base::Ints;
using base::require;
using data::Feed;
using data::Source;
using device::HostArray;
using graph::Builder;
using graph::NodeView;
using graph::OpDef;
using graph::ValueId;
using kernels::KernelArgs;
using kernels::KernelRow;
using kernels::PreparedKernel;
using plan::CallSpec;
using plan::Counters;
using plan::PassTime;
using sbp::AxisSplit;
using sbp::CostTable;
using sbp::Layout;
using sbp::LayoutRule;
using sbp::Mesh;
using sbp::MeshAxis;
using tensor::DType;
using tensor::Shape;
using tensor::TensorType;
using tensor::with_type;

}  // namespace karez
