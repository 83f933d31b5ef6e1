// One entry per mesh axis from one word per dimension.
#include "sbp/layout_words.h"

#include "base/error.h"
#include "base/text.h"

namespace karez::sbp {

Layout layout_from(const std::vector<std::string>& words, int rank, const Mesh& mesh, std::string_view what) {
  require(ErrorKind::layout, static_cast<int>(words.size()) <= rank, what, " names ", words.size(), " dimensions; there are ", rank);
  Layout layout = broadcast_layout(mesh);
  for (std::size_t d = 0; d < words.size(); ++d) {
    if (words[d].empty()) continue;
    for (const std::string& axis : split(words[d], '+')) {
      Sbp& entry = layout[static_cast<std::size_t>(mesh.axis(axis))];
      require(ErrorKind::layout, entry.is_broadcast(), what, " names the mesh axis '", axis, "' twice: it can split one dimension");
      entry = S(static_cast<int>(d));
    }
  }
  return layout;
}

}  // namespace karez::sbp
