// Construction, parsing and coordinates of meshes.
#include "karez/sbp/mesh.h"

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::sbp {

Mesh::Mesh() = default;
Mesh::Mesh(std::vector<MeshAxis> a, std::vector<DeviceName> d) : axes(std::move(a)), devices(std::move(d)) {}
Mesh::Mesh(const Mesh&) = default;
Mesh::Mesh(Mesh&&) noexcept = default;
Mesh& Mesh::operator=(const Mesh&) = default;
Mesh& Mesh::operator=(Mesh&&) noexcept = default;
Mesh::~Mesh() = default;
bool Mesh::operator==(const Mesh&) const = default;

Mesh Mesh::of(std::vector<MeshAxis> axes) {
  Mesh mesh(std::move(axes), {});
  std::int64_t size = 1;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const MeshAxis& axis = mesh.axes[a];
    require(ErrorKind::name, !axis.name.empty(), "mesh: axis ", a, " of size ", axis.size, " has no name");
    require(axis.size >= 1, "mesh: axis ", axis.name, " has size ", axis.size, "; it must be at least 1");
    for (std::size_t b = 0; b < a; ++b)
      require(ErrorKind::name, mesh.axes[b].name != axis.name, "mesh: axis ", axis.name, " appears twice, as axes ", b,
              " and ", a);
    size = checked_mul(size, axis.size);
  }
  require(ErrorKind::device, size <= 1 << 24, "mesh: ", size, " devices; the maximum is ", 1 << 24);
  for (int d = 0; d < size; ++d) mesh.devices.push_back({0, d});
  return mesh;
}

const Mesh& Mesh::of_one_device() {
  static const Mesh mesh = of({});
  return mesh;
}

Mesh Mesh::parse(std::string_view text) {
  Scanner in(text, cat("mesh '", text, "'"));
  std::vector<MeshAxis> axes;
  while (!in.at_end()) {
    if (!axes.empty()) in.expect(",");
    std::string name = in.name();
    in.expect("=");
    std::int64_t size = in.integer();
    require(size >= 1 && size <= 1 << 24, "mesh: axis ", name, " has size ", size, "; it must be 1 to ", 1 << 24,
            " (in '", text, "')");
    axes.push_back({std::move(name), static_cast<int>(size)});
  }
  return of(std::move(axes));
}

int Mesh::axis(std::string_view name) const {
  for (int a = 0; a < rank(); ++a)
    if (axes[a].name == name) return a;
  fail(ErrorKind::name, "mesh: unknown axis '", name, "'; ",
       axes.empty() ? cat(print(*this), " has no axes")
                    : cat("expected one of: ", join(axes, ", ", [](const MeshAxis& axis) { return axis.name; })));
}

std::vector<int> Mesh::coordinates(int position) const {
  if (position < 0 || position >= size())
    fail(ErrorKind::device, "mesh: position ", position, " is outside ", print(*this), " of ", size(), " devices");
  std::vector<int> out(axes.size());
  for (int a = rank() - 1; a >= 0; --a) {
    out[a] = position % axes[a].size;
    position /= axes[a].size;
  }
  return out;
}

int Mesh::position(const std::vector<int>& coordinates) const {
  if (coordinates.size() != axes.size())
    fail("mesh: ", coordinates.size(), " coordinates for the ", rank(), " axes of ", print(*this));
  int out = 0;
  for (int a = 0; a < rank(); ++a) {
    require(coordinates[a] >= 0 && coordinates[a] < axes[a].size, "mesh: coordinate ", coordinates[a],
            " is outside of axis ", axes[a].name, " of size ", axes[a].size);
    out = out * axes[a].size + coordinates[a];
  }
  return out;
}

std::vector<int> Mesh::group(int axis, int position) const {
  if (axis < 0 || axis >= rank())
    fail(ErrorKind::device, "mesh: axis number ", axis, " is outside of ", print(*this), " of ", rank(), " axes");
  std::vector<int> at = coordinates(position);
  std::vector<int> out(axes[axis].size);
  for (int i = 0; i < axes[axis].size; ++i) {
    at[axis] = i;
    out[i] = this->position(at);
  }
  return out;
}

std::string print(const Mesh& mesh) {
  return cat("mesh(", join(mesh.axes, ", ", [](const MeshAxis& axis) { return cat(axis.name, "=", axis.size); }), ")");
}

}  // namespace karez::sbp
