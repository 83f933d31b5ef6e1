// Which host this is, and at which address others reach it.
#pragma once

#include <string>

#include "karez/comm/namespace.h"

namespace karez::comm {

// The same text in two processes where they share memory and see each other's loopback: boot id and network namespace;
// KAREZ_HOST instead where it is set, for tests and for containers that hide either.
std::string this_host();
std::string this_process();  // for people: "alpha, process 4711"

// This process for others that see it in /proc: boot id, pid namespace, number and start time, so that no other process
// is ever taken for it.
std::string this_process_in_proc();
// Whether a signal has stopped that one, and nothing let it go on yet. Not one that a debugger holds, nor one that is
// not seen here.
bool is_stopped(const std::string& process_in_proc);

// The numeric address of a host by its name, IPv4 where it has one; a numeric address as it is. A name that means this
// host's loopback, where others cannot reach it, is an error of kind user, unless it is "localhost".
std::string address_of_host(const std::string& name);

// The numeric address of this host on the interface that leads out of it: the one of the default route, or the only one
// there is. Throws Error (kind user) with the interfaces there are.
std::string outward_address();

// The numeric address of an interface by its name ("eth0"), or a numeric address as it is; "" is loopback. Throws Error
// (kind user) with the interfaces there are.
std::string address_of(const std::string& interface);

}  // namespace karez::comm
