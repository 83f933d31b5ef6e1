// For tests of transitions: lists the legal steps from a layout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "karez/sbp/axis_transition.h"
#include "karez/sbp/namespace.h"

namespace karez::sbp {

// Returns every legal step from `from` to a layout that is valid for `type`.
inline std::vector<TransitionStep> steps_from(const TensorType& type, const Mesh& mesh, const Layout& from) {
  std::string reason;
  require(ErrorKind::layout, is_valid(type, mesh, from, &reason), "transition: ", reason);
  std::vector<Sbp> entries;
  for (int d = 0; d < type.rank(); ++d) entries.push_back(S(d));
  entries.push_back(B());
  for (Reduce r : {Reduce::sum, Reduce::max, Reduce::min}) entries.push_back(P(r));
  std::vector<TransitionStep> out;
  for (int a = 0; a < mesh.rank(); ++a) {
    for (Sbp entry : entries) {
      auto move = move_between(from[a], entry);
      if (!move || !boxes_nest(mesh, from, a, from[a], entry)) continue;
      Layout to = from;
      to[a] = entry;
      if (is_valid(type, mesh, to)) out.push_back({a, *move, from, std::move(to)});
    }
  }
  return out;
}

}  // namespace karez::sbp
