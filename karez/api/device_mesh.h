// DeviceMesh: devices of a world, arranged along named axes.
#pragma once

#include <memory>
#include <vector>

#include "karez/api/names.h"

namespace karez {

struct WorldState;

// Devices of one world, arranged along named axes; an argument of `compile`. A mesh keeps the world's state alive.
struct DeviceMesh {
  std::shared_ptr<WorldState> world;
  Mesh mesh;
};

// The devices of a mesh: consecutive devices beginning with `first`, or the listed devices, in row-major order along
// the axes. Devices are numbered rank by rank.
struct MeshPlace {
  int first = 0;
  std::vector<int> devices = {};
};

}  // namespace karez
