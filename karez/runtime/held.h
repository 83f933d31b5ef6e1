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
struct Spread {
  struct Part {
    PlanDevice place;
    Device* device = nullptr;
    Ints begin;  // in the whole
    View view;   // row-major
    bool operator==(const Part&) const = default;
  };
  std::string name;  // the binding
  TensorType type;   // of the whole
  std::vector<Part> parts;
};

// Its bytes, counted by the devices as held until the last one lets go.
struct Held {
  std::shared_ptr<const Spread> spread;
  std::vector<Memory> memory;  // by part

  explicit Held(std::shared_ptr<const Spread> how, bool poisoned);
};

using HeldList = std::vector<std::shared_ptr<Held>>;  // a launch's, by fetch binding

HostArray whole_of(const Held& held);               // from as few parts as have it
std::vector<HostArray> parts_of(const Held& held);  // each as it lies on its device

// "whole on device 0.0, [0:2, 0:3] on device 0.1": for errors.
std::string print(const Spread& spread);

}  // namespace karez::runtime
