// Host: reads the identity of this host and the state of its processes from /proc, and its addresses from the network
// interfaces.
#include "karez/comm/rendezvous/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

std::string this_host() {
  if (const char* name = std::getenv("KAREZ_HOST"); name != nullptr && *name != '\0') return cat("named ", name);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 128> text{};
  auto n = readlink("/proc/self/ns/net", text.data(), text.size());
  require(ErrorKind::device, !boot.empty() && n > 0,
          "no boot id or network namespace in /proc; set KAREZ_HOST to a name of this host");
  return cat(boot, " ", std::string_view(text.data(), static_cast<std::size_t>(n)));
}

std::string this_process() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return cat(name.data(), ", process ", getpid());
}

namespace {

// Reads the state and the start time (fields 3 and 22) of a process from /proc/PID/stat.
std::optional<std::pair<char, std::string>> read_state_and_start(int process) {
  std::ifstream in(cat("/proc/", process, "/stat"));
  std::string text;
  std::getline(in, text, '\0');
  const std::size_t name_end = text.rfind(')');  // the name may contain any character
  if (name_end == text.npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string state, word;
  words >> state;
  for (int i = 0; i < 19; ++i) words >> word;
  if (!words || state.size() != 1) return std::nullopt;
  return std::pair(state[0], word);
}

// Returns "boot id, pid namespace". Processes for which this text is equal see the same pids.
std::string proc_namespace() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 128> text{};
  const auto n = readlink("/proc/self/ns/pid", text.data(), text.size());
  return cat(boot, " ", std::string_view(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
}

}  // namespace

std::string this_process_in_proc() {
  const auto state_and_start = read_state_and_start(getpid());
  return cat(proc_namespace(), " ", getpid(), " ", state_and_start ? state_and_start->second : "?");
}

bool is_stopped(const std::string& process_in_proc) {
  static const std::string local_prefix = proc_namespace() + " ";
  if (!starts_with(process_in_proc, local_prefix)) return false;
  std::istringstream words(process_in_proc.substr(local_prefix.size()));
  int process = 0;
  std::string start;
  if (!(words >> process >> start)) return false;
  const auto state_and_start = read_state_and_start(process);
  return state_and_start && *state_and_start == std::pair('T', start);
}

std::string address_of_host(const std::string& name) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  require(error == 0, "cannot resolve host '", name, "': ", gai_strerror(error));
  std::string ipv4, ipv6;
  for (addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    std::string& out = entry->ai_family == AF_INET ? ipv4 : ipv6;
    bool loopback = starts_with(text.data(), "127.") || std::string_view(text.data()) == "::1";
    if (out.empty() || (!loopback && starts_with(out, "127."))) out = text.data();
  }
  freeaddrinfo(list);
  std::string out = ipv4.empty() ? ipv6 : ipv4;
  bool loopback = starts_with(out, "127.") && name != out && name != "localhost";
  if (out.empty() || loopback)
    fail("host '", name, "' resolves to ",
         loopback ? cat(out, " here, which no other host can reach") : "no numeric address",
         "; give its numeric address, or set KAREZ_INTERFACE to the interface or address by which others reach this "
         "host");
  return out;
}

std::string outward_address() {
  Descriptor probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  // The address is reserved for documentation: no packet is sent, only the route is looked up.
  inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return local_address(probe.get()).host;
  ifaddrs* list = nullptr;
  require(ErrorKind::device, getifaddrs(&list) == 0, "cannot list the network interfaces");
  std::string name, names;
  int count = 0;
  for (ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    names += cat(count++ > 0 ? ", " : "", entry->ifa_name);
    name = entry->ifa_name;
  }
  freeifaddrs(list);
  require(count == 1, "the interface by which other hosts reach this one is unknown: set KAREZ_INTERFACE to one of ",
          names);
  return address_of(name);
}

std::string address_of(const std::string& interface) {
  if (interface.empty()) return "127.0.0.1";
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  if (inet_pton(AF_INET, interface.c_str(), binary.data()) == 1 ||
      inet_pton(AF_INET6, interface.c_str(), binary.data()) == 1)
    return interface;
  ifaddrs* list = nullptr;
  require(ErrorKind::device, getifaddrs(&list) == 0, "cannot list the network interfaces");
  std::string address, names;
  for (ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    names += cat(names.empty() ? "" : ", ", entry->ifa_name);
    if (interface != entry->ifa_name || !address.empty()) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text.data(), text.size());
    address = text.data();
  }
  freeifaddrs(list);
  require(!address.empty(), "unknown network interface '", interface, "'; expected one of: ", names);
  return address;
}

}  // namespace karez::comm
