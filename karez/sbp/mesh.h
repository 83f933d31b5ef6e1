// A mesh: devices arranged along named axes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/scanner.h"
#include "karez/sbp/namespace.h"

namespace karez::sbp {

// One device of the world: its rank (process) and its number within the rank.
struct DeviceName {
  int rank = 0;
  int device = 0;
  auto operator<=>(const DeviceName&) const = default;
};
inline std::string print(DeviceName d) { return cat(d.rank, ":", d.device); }

struct MeshAxis {
  std::string name;
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// Devices in row-major order of their coordinates: on (data=2, model=2), devices[1] is (0, 1). A mesh without axes has
// one device.
struct Mesh {
  Mesh();
  Mesh(std::vector<MeshAxis> axes, std::vector<DeviceName> devices);
  Mesh(const Mesh&);
  Mesh(Mesh&&) noexcept;
  Mesh& operator=(const Mesh&);
  Mesh& operator=(Mesh&&) noexcept;
  ~Mesh();

  std::vector<MeshAxis> axes;
  std::vector<DeviceName> devices;

  // Returns a mesh of the devices 0:0, 0:1, ... of one rank. Sizes below 1 and repeated names are errors.
  static Mesh of(std::vector<MeshAxis> axes);
  static const Mesh& of_one_device();        // the same as of({})
  static Mesh parse(std::string_view text);  // "data=2,model=2", or "" for one device

  int rank() const { return static_cast<int>(axes.size()); }
  int size() const { return static_cast<int>(devices.size()); }
  int axis(std::string_view name) const;             // for an unknown name, throws an error that lists the axes
  std::vector<int> coordinates(int position) const;  // the coordinates of devices[position]
  int position(const std::vector<int>& coordinates) const;
  // Returns the positions that differ from `position` only on `axis`, sorted by their coordinate on `axis`.
  std::vector<int> group(int axis, int position) const;
  bool operator==(const Mesh&) const;
};
std::string print(const Mesh& mesh);  // "mesh(data=2, model=2)"

}  // namespace karez::sbp
