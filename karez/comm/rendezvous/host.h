// Host: the identity of this host, its addresses, and the state of its processes.
#pragma once

#include <string>

#include "karez/comm/namespace.h"

namespace karez::comm {

// Returns the boot id and the network namespace, which are equal in processes that share memory and loopback.
// KAREZ_HOST overrides them, for tests and for containers that hide one of the two.
std::string this_host();
std::string this_process();  // for messages: "alpha, process 4711"

// Identifies this process for other processes that see it in /proc: boot id, pid namespace, pid and start time, so
// that no other process is mistaken for this one.
std::string this_process_in_proc();
// Returns true if a signal has stopped that process. Returns false if a debugger has stopped it, or if it is not
// visible in the /proc of this process.
bool is_stopped(const std::string& process_in_proc);

// Returns the numeric address of a host given by name, IPv4 if it has one; a numeric address is returned unchanged.
// Throws an Error (kind user) if a name other than "localhost" resolves to loopback, where other hosts cannot reach
// this host.
std::string address_of_host(const std::string& name);

// Returns the numeric address of this host on its outward interface: the interface of the default route, or the only
// one. Otherwise throws an Error (kind user) that lists the interfaces.
std::string outward_address();

// Returns the numeric address of an interface given by name ("eth0"); a numeric address is returned unchanged, and ""
// gives loopback. Throws an Error (kind user) that lists the interfaces if there is no such interface.
std::string address_of(const std::string& interface);

}  // namespace karez::comm
