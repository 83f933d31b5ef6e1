// The names from lower components that users need, imported into the namespace `karez`. Other names stay in their
// namespaces, so that a program may define types called Block, Node or Batch.
#pragma once

#include "karez/base/attrs.h"
#include "karez/base/error.h"
#include "karez/data/source.h"
#include "karez/device/host_array.h"
#include "karez/graph/op.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/catalog.h"
#include "karez/plan/counters.h"
#include "karez/plan/pass_time.h"
#include "karez/sbp/cost.h"
#include "karez/sbp/layout_rule.h"
#include "karez/sbp/sbp.h"

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
