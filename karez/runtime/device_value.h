// Values on devices that belong to the user: fetches of a launch write such a value, and inputs of later launches may
// read it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/device/device.h"
#include "karez/device/host_array.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// The layout of a value: one shard on each of some devices, in the order of their names. Shards are replicas of each
// other or disjoint, and together they are the whole value.
struct ShardLayout {
  struct Shard {
    PlanDevice place;
    Device* device = nullptr;
    Ints begin;  // begin of the shard in the whole value
    View view;   // row-major
    bool operator==(const Shard&) const = default;
  };
  std::string name;  // name of the binding
  TensorType type;   // type of the whole value
  std::vector<Shard> shards;
};

// The bytes of a value. The devices count them as held until the last handle is destroyed.
struct DeviceValue {
  std::shared_ptr<const ShardLayout> layout;
  std::vector<Memory> memory;  // by shard

  DeviceValue(std::shared_ptr<const ShardLayout> value_layout, bool poisoned);
};

using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;  // the results of a launch, by fetch binding

HostArray gather_shards(const DeviceValue& value);             // the whole value; skips replicas
std::vector<HostArray> copy_shards(const DeviceValue& value);  // one array per shard

// "whole on device 0.0, [0:2, 0:3] on device 0.1": for errors.
std::string print(const ShardLayout& layout);

}  // namespace karez::runtime
