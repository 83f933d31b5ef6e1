// The identity of this host, and the addresses at which others reach it.
#pragma once

#include <string>

#include "karez/comm/namespace.h"

namespace karez::comm {

// The same text in two processes that share memory and loopback: boot id and network namespace, or KAREZ_HOST if it is
// set, for tests and for containers that hide either.
std::string this_host();
std::string this_process();  // for messages: "alpha, process 4711"

// Identifies this process for others that see it in /proc: boot id, pid namespace, number and start time, so that no
// other process is mistaken for it.
std::string this_process_in_proc();
// Whether that process is stopped by a signal. False for a process that a debugger stopped or that is not visible here.
bool is_stopped(const std::string& process_in_proc);

// The numeric address of a host given by name, IPv4 if it has one; a numeric address is returned unchanged. A name that
// resolves to this host's loopback, where others cannot reach it, is an error of kind user, except "localhost".
std::string address_of_host(const std::string& name);

// The numeric address of this host on its outward interface: that of the default route, or the only one. Throws Error
// (kind user) that lists the interfaces.
std::string outward_address();

// The numeric address of an interface given by name ("eth0"); a numeric address is returned unchanged; "" is loopback.
// Throws Error (kind user) that lists the interfaces.
std::string address_of(const std::string& interface);

}  // namespace karez::comm
