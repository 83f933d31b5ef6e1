// The wire over UCX: whatever transports that library finds between two processes, RDMA among them. It was never tried
// on a network card.
//
// A socket beside it carries both sides' addresses at the start and how many bytes were written at the end, and tells
// the peer's death. Bytes go through memory of the wire's own, so that nothing of a caller's is read after `write` has
// returned. UCX allocates while it runs, which the other wires never do. The library is looked for when a wire is made:
// nothing links it.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"
#include "karez/comm/wire.h"

namespace karez::comm {

// `near`: the peer is on this host. `transports` as UCX_TLS has them; "": what UCX_TLS says, and without that shared
// memory within a host, whatever UCX finds between hosts. Throws Error of kind device where UCX does not start.
std::unique_ptr<Wire> make_ucx_wire(Descriptor socket, bool same_host, const std::string& transports = {});

void require_ucx();  // throws Error (kind user) where this build was made without UCX, or its library is not here
bool has_ucx();

}  // namespace karez::comm
