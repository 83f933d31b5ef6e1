// Layouts on mesh axes of one device. Such axes accept every entry that longer axes accept, so that one program runs
// on meshes of any size.
#pragma once

#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// Returns the layout with Broadcast for each axis of one device, since such an axis splits nothing.
Layout effective_layout(const Mesh& mesh, Layout layout);
// True if the stored layout satisfies the required one. On an axis of one device, a stored Broadcast satisfies every
// entry.
bool layouts_agree(const Mesh& mesh, const Layout& stored, const Layout& required);

}  // namespace karez::sbp
