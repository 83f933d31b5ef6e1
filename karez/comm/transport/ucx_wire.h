// UCX wire: uses any transport that the UCX library finds between two processes, such as RDMA. It has not been tested
// on a network card.
//
// A socket carries the addresses of both sides at the start and the number of written bytes at the end
// (ucx_exchange.h), and reports that the peer's process has ended. Bytes are copied into memory of the wire, so the
// caller's memory is not read after `write` has returned. Unlike the other wires, UCX allocates memory while it runs.
// The library is loaded when a wire is made; no binary is linked to it.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"
#include "karez/comm/transport/wire.h"

namespace karez::comm {

// `same_host` means that the peer is on this host. `transports` has the form of UCX_TLS. If it is empty, the value of
// UCX_TLS applies. If that variable is not set, the wire uses shared memory within a host and any transport between
// hosts. Throws Error (kind device) if UCX does not start.
std::unique_ptr<Wire> make_ucx_wire(Descriptor socket, bool same_host, const std::string& transports = {});

void require_ucx();  // throws Error (kind user) if this build has no UCX, or the library is not found
bool has_ucx();

}  // namespace karez::comm
