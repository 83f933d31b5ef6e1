// Layouts on meshes some of whose axes have one device: they take every layout that longer ones would, so that one
// program runs at every size.
#pragma once

#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// What a layout comes to: an axis of one device cuts nothing, whatever it was asked to, so its entry is Broadcast.
Layout effective_layout(const Mesh& mesh, Layout layout);
// Whether what is stored is what is wanted. On an axis of one device of which nothing was said when it was stored
// (Broadcast) anything is.
bool layouts_agree(const Mesh& mesh, const Layout& stored, const Layout& wanted);

}  // namespace karez::sbp
