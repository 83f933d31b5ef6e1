// Stages over data sets whose elements can be read by their index.
#pragma once

#include <cstdint>
#include <memory>

#include "karez/data/namespace.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {

// Emits the elements of an epoch in order, each read by its index.
std::unique_ptr<StageBody> random_access_body(DatasetNodeRef node);
// Emits elements that have only an epoch, an index and a state; `read_by_index` then reads their fields, for several
// elements at the same time.
std::unique_ptr<StageBody> index_body(DatasetNodeRef node);
// The number of elements before a position. Throws if the data set, which has a size, has no such position.
std::int64_t checked_index(const DatasetNode& node, const StreamState& state);
ElementFunction read_by_index(DatasetNodeRef node);
// The same for several elements; null if the function of the node has no such form.
ElementGroupFunction read_group_by_index(DatasetNodeRef node);

}  // namespace karez::data
