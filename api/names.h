// What users name of the rooms below: brought up into `karez`, and nothing else, so that a program may call its own types Block, Node or Batch.
#pragma once

#include "base/attrs.h"
#include "base/error.h"
#include "data/batch.h"
#include "data/idx.h"
#include "data/source.h"
#include "device/host_array.h"
#include "graph/op.h"
#include "sbp/cost.h"
#include "sbp/sbp.h"

namespace karez {

using base::Attrs;
using base::cat;
using base::Error;
using base::ErrorKind;
using base::exit_code;
using base::Ints;
using base::require;
using data::Batches;
using data::BatchOptions;
using data::Feed;
using data::LabelledImages;
using data::read_labelled_images;
using data::Source;
using device::HostArray;
using graph::Builder;
using graph::OpDef;
using graph::ValueId;
using sbp::CostTable;
using sbp::Layout;
using sbp::Mesh;
using sbp::MeshAxis;
using tensor::DType;
using tensor::Shape;
using tensor::TensorType;
using tensor::with_type;

}  // namespace karez
