// Effective layouts, and the comparison of layouts on axes of one device.
#include "karez/sbp/effective_layout.h"

namespace karez::sbp {

Layout effective_layout(const Mesh& mesh, Layout layout) {
  for (std::size_t a = 0; a < layout.size() && a < mesh.axes.size(); ++a)
    if (mesh.axes[a].size == 1) layout[a] = B();
  return layout;
}

bool layouts_agree(const Mesh& mesh, const Layout& stored, const Layout& required) {
  if (stored.size() != required.size()) return false;
  for (std::size_t a = 0; a < stored.size(); ++a)
    if (stored[a] != required[a] && !(mesh.axes[a].size == 1 && stored[a].is_broadcast())) return false;
  return true;
}

}  // namespace karez::sbp
