// Axis names per dimension -> entries per mesh axis.
#include "api/inside/layout.h"

#include "api/inside/rooms.h"
#include "base/text.h"

namespace karez {

Layout layout_of(const TensorType& type, const Mesh& mesh, const std::vector<std::string>& axes) {
  require(ErrorKind::layout, axes.size() <= type.shape.size(), "a layout of ", axes.size(), " dimensions for ", type);
  Layout layout = broadcast_layout(mesh);
  for (std::size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].empty()) continue;
    for (const auto& name : split(axes[d], '+')) {
      Sbp& entry = layout[static_cast<std::size_t>(mesh.axis(name))];
      require(ErrorKind::layout, entry.is_broadcast(), "a layout for ", type, " names the mesh axis '", name, "' twice: it can split one dimension");
      entry = S(static_cast<int>(d));
    }
  }
  std::string why;
  require(ErrorKind::layout, is_valid(type, mesh, layout, &why), "a layout ", print(layout), " for ", type, ": ", why);
  return layout;
}

}  // namespace karez
