// Values that lie on devices and belong to the user: what the fetches of a launch write, and what inputs of later
// launches may read.
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

// How a value lies: a part on each of some devices, in the order of their names. Parts are equal or apart, and make the
// whole.
struct ShardLayout {
  struct Shard {
    PlanDevice place;
    Device* device = nullptr;
    Ints begin;  // in the whole
    View view;   // row-major
    bool operator==(const Shard&) const = default;
  };
  std::string name;  // the binding
  TensorType type;   // of the whole
  std::vector<Shard> shards;
};

// Its bytes, counted by the devices as held until the last one lets go.
struct DeviceValue {
  std::shared_ptr<const ShardLayout> layout;
  std::vector<Memory> memory;  // by part

  explicit DeviceValue(std::shared_ptr<const ShardLayout> how, bool poisoned);
};

using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;  // a launch's, by fetch binding

HostArray gather_shards(const DeviceValue& value);             // from as few parts as have it
std::vector<HostArray> copy_shards(const DeviceValue& value);  // each as it lies on its device

// "whole on device 0.0, [0:2, 0:3] on device 0.1": for errors.
std::string print(const ShardLayout& layout);

}  // namespace karez::runtime
