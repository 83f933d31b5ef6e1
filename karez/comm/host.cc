// The identity of this host from the kernel, and its addresses from its interfaces.
#include "karez/comm/host.h"

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
#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"

namespace karez::comm {

std::string this_host() {
  if (const char* given = std::getenv("KAREZ_HOST"); given != nullptr && *given != '\0') return cat("named ", given);
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

// The state and the start time (fields 3 and 22) of a process from /proc/PID/stat.
std::optional<std::pair<char, std::string>> state_and_start(int process) {
  std::ifstream in(cat("/proc/", process, "/stat"));
  std::string text;
  std::getline(in, text, '\0');
  const std::size_t name = text.rfind(')');  // the name may contain any character
  if (name == text.npos) return std::nullopt;
  std::istringstream words(text.substr(name + 1));
  std::string state, word;
  words >> state;
  for (int i = 0; i < 19; ++i) words >> word;
  if (!words || state.size() != 1) return std::nullopt;
  return std::pair(state[0], word);
}

// "boot id, pid namespace": processes with the same text see the same process numbers.
std::string processes_seen_here() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 128> text{};
  const auto n = readlink("/proc/self/ns/pid", text.data(), text.size());
  return cat(boot, " ", std::string_view(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
}

}  // namespace

std::string this_process_in_proc() {
  const auto own = state_and_start(getpid());
  return cat(processes_seen_here(), " ", getpid(), " ", own ? own->second : "?");
}

bool is_stopped(const std::string& process_in_proc) {
  static const std::string here = processes_seen_here() + " ";
  if (!starts_with(process_in_proc, here)) return false;
  std::istringstream words(process_in_proc.substr(here.size()));
  int process = 0;
  std::string start;
  if (!(words >> process >> start)) return false;
  const auto now = state_and_start(process);
  return now && now->first == 'T' && now->second == start;
}

std::string address_of_host(const std::string& name) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  require(error == 0, "cannot resolve host '", name, "': ", gai_strerror(error));
  std::string four, six;
  for (addrinfo* at = list; at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    std::string& out = at->ai_family == AF_INET ? four : six;
    bool loopback = starts_with(text.data(), "127.") || std::string_view(text.data()) == "::1";
    if (out.empty() || (!loopback && starts_with(out, "127."))) out = text.data();
  }
  freeaddrinfo(list);
  std::string out = four.empty() ? six : four;
  bool hidden = starts_with(out, "127.") && name != out && name != "localhost";
  require(!out.empty() && !hidden, "host '", name, "' resolves to ", hidden ? out : "no address",
          " here, which no other host can reach; give its ",
          "numeric address, or set KAREZ_INTERFACE to the interface or address by which others reach this host");
  return out;
}

std::string outward_address() {
  Descriptor probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1",
            &to.sin_addr);  // reserved for documentation: nothing is sent, only the route is looked up
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return local_address(probe.get()).host;
  ifaddrs* list = nullptr;
  require(ErrorKind::device, getifaddrs(&list) == 0, "cannot list the network interfaces");
  std::string found, names;
  int several = 0;
  for (ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    names += cat(several++ > 0 ? ", " : "", at->ifa_name);
    found = at->ifa_name;
  }
  freeifaddrs(list);
  require(several == 1, "the interface by which other hosts reach this one is unknown: set KAREZ_INTERFACE to one of ",
          names);
  return address_of(found);
}

std::string address_of(const std::string& interface) {
  if (interface.empty()) return "127.0.0.1";
  std::array<unsigned char, sizeof(in6_addr)> any{};
  if (inet_pton(AF_INET, interface.c_str(), any.data()) == 1 || inet_pton(AF_INET6, interface.c_str(), any.data()) == 1)
    return interface;
  ifaddrs* list = nullptr;
  require(ErrorKind::device, getifaddrs(&list) == 0, "cannot list the network interfaces");
  std::string found, names;
  for (ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
      continue;
    bool four = at->ifa_addr->sa_family == AF_INET;
    if (four) names += cat(names.empty() ? "" : ", ", at->ifa_name);
    if (interface != at->ifa_name || !four || !found.empty()) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text.data(), text.size());
    found = text.data();
  }
  freeifaddrs(list);
  require(!found.empty(), "no network interface is called '", interface, "'; there are ", names);
  return found;
}

}  // namespace karez::comm
