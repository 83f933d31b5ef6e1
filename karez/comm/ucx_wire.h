// The wire over UCX: any transport that this library finds between two processes, such as RDMA. It has not been tested
// on a network card.
//
// A socket exchanges the addresses of both sides at the start and the number of written bytes at the end, and reports
// the peer's death. Bytes are copied into memory of the wire, so the caller's memory is not read after `write` has
// returned. UCX allocates while it runs, unlike the other wires. The library is loaded when a wire is made; nothing
// links to it.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"
#include "karez/comm/wire.h"

namespace karez::comm {

// `same_host`: the peer is on this host. `transports`: as in UCX_TLS; "": the value of UCX_TLS, or without it shared
// memory within a host and any transport between hosts. Throws Error of kind device if UCX does not start.
std::unique_ptr<Wire> make_ucx_wire(Descriptor socket, bool same_host, const std::string& transports = {});

void require_ucx();  // throws Error (kind user) if this build has no UCX, or its library is not found
bool has_ucx();

}  // namespace karez::comm
