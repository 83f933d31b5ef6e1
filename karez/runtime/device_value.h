// Values that the user holds on devices. The fetches of a launch write such values, and the inputs of later launches
// may read them.
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

// The layout of a value: its shards, sorted by device. Two shards are either replicas of each other or disjoint, and
// the shards together cover the value.
struct ShardLayout {
  struct Shard {
    PlanDevice place;
    Device* device = nullptr;
    Ints begin;  // index of the shard's first element in the whole value
    View view;   // row-major
    bool operator==(const Shard&) const = default;
  };
  std::string name;  // name of the binding
  TensorType type;   // type of the whole value
  std::vector<Shard> shards;
};

// The bytes of a value. The devices count them as held bytes until the last handle is destroyed.
struct DeviceValue {
  std::shared_ptr<const ShardLayout> layout;
  std::vector<Memory> memory;  // by shard

  // Allocates the memory. If `poisoned`, fills it with the poison pattern; otherwise it is uninitialised.
  DeviceValue(std::shared_ptr<const ShardLayout> value_layout, bool poisoned);
};

using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;  // the results of a launch, by fetch binding

HostArray gather_shards(const DeviceValue& value);             // returns the whole value; copies each replica once
std::vector<HostArray> copy_shards(const DeviceValue& value);  // one array per shard

// For error messages: "whole on device 0.0, [0:2, 0:3] on device 0.1".
std::string print(const ShardLayout& layout);

}  // namespace karez::runtime
