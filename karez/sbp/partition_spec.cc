// Conversion between partition specs and layouts.
#include "karez/sbp/partition_spec.h"

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::sbp {
namespace {

void split_by(Layout& layout, const Mesh& mesh, const std::string& axis, int dim, std::string_view what) {
  Sbp& entry = layout[static_cast<std::size_t>(mesh.axis(axis))];
  require(ErrorKind::layout, entry.is_broadcast(), what, " names the mesh axis '", axis,
          "' twice; an axis can split only one dimension");
  entry = S(dim);
}

}  // namespace

Layout layout_from(const std::vector<std::string>& spec, int rank, const Mesh& mesh, std::string_view what) {
  require(ErrorKind::layout, static_cast<int>(spec.size()) <= rank, what, " names ", spec.size(),
          spec.size() == 1 ? " dimension" : " dimensions", ", but the rank is ", rank);
  Layout layout = broadcast_layout(mesh);
  for (std::size_t d = 0; d < spec.size(); ++d) {
    if (spec[d].empty()) continue;
    const std::vector<std::string> axes = split(spec[d], '+');
    for (const std::string& axis : axes) split_by(layout, mesh, axis, static_cast<int>(d), what);
    std::vector<std::string> nested;  // in the order of the mesh
    for (std::size_t a = 0; a < layout.size(); ++a)
      if (layout[a].is_split(static_cast<int>(d))) nested.push_back(mesh.axes[a].name);
    if (axes != nested)
      fail(ErrorKind::layout, what, " splits dimension ", d, " by '", spec[d],
           "'; splits nest in the order of the axes of ", print(mesh), ": '", join(nested, "+"), "'");
  }
  return layout;
}

Layout layout_from(const std::vector<AxisSplit>& splits, int rank, const Mesh& mesh, std::string_view what) {
  Layout layout = broadcast_layout(mesh);
  for (const auto& [axis, dim] : splits) {
    if (-rank > dim || dim >= rank)
      fail(ErrorKind::layout, what, " splits dimension ", dim, " on the mesh axis '", axis, "'; ",
           rank == 0   ? std::string("the rank is 0")
           : rank == 1 ? std::string("the rank is 1: use 0 or -1")
                       : cat("the rank is ", rank, ": use 0 to ", rank - 1, ", or -", rank, " to -1 from the end"));
    split_by(layout, mesh, axis, dim < 0 ? dim + rank : dim, what);
  }
  return layout;
}

std::vector<std::string> partition_spec_of(const Layout& layout, int rank, const Mesh& mesh) {
  std::vector<std::string> out(static_cast<std::size_t>(rank));
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_split()) continue;
    std::string& axes = out[static_cast<std::size_t>(layout[axis].dim)];
    axes += (axes.empty() ? "" : "+") + mesh.axes[axis].name;
  }
  return out;
}

}  // namespace karez::sbp
