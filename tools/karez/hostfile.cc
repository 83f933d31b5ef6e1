// Parses host files and assigns ranks to hosts.
#include "tools/karez/hostfile.h"

#include <algorithm>
#include <sstream>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::tools {
namespace {

constexpr int max_slots_per_host = 1 << 20;

int slots_of(std::string_view word, std::string_view where) {
  auto equals = word.find('=');
  std::string key(word.substr(0, equals)), value(equals == std::string_view::npos ? "" : word.substr(equals + 1));
  require(ErrorKind::data, key == "slots" || key == "max_slots" || key == "max-slots", where, "'", word,
          "' must be slots=N or max_slots=N");
  bool is_valid = !value.empty() && value.size() <= 7 && value.find_first_not_of("0123456789") == std::string::npos;
  require(ErrorKind::data, is_valid && std::stoi(value) >= 1 && std::stoi(value) <= max_slots_per_host, where, "'",
          word, "': the number of slots must be 1 to ", max_slots_per_host);
  return key == "slots" ? std::stoi(value) : 0;
}

}  // namespace

std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& file_name) {
  std::vector<HostSlots> out;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::string where = cat(file_name, ": line ", ++number, ": ");
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, word;
    if (!(words >> name)) continue;
    require(ErrorKind::data, name[0] != '-' && name.find('=') == std::string::npos, where, "'", name,
            "' is not a host name");
    int slots = 1;
    while (words >> word)
      if (int value = slots_of(word, where)) slots = value;
    auto at = std::find_if(out.begin(), out.end(), [&](const HostSlots& host) { return host.name == name; });
    if (at == out.end()) out.push_back({name, slots});
    else at->slots += slots;
  }
  require(ErrorKind::data, !out.empty(), file_name, ": the file lists no host");
  return out;
}

std::vector<int> deal_ranks(const std::vector<HostSlots>& hosts, int ranks) {
  std::vector<int> out;
  int unassigned = ranks, total_slots = 0;
  for (const HostSlots& host : hosts) {
    out.push_back(std::min(unassigned, host.slots));
    unassigned -= out.back();
    total_slots += host.slots;
  }
  if (unassigned != 0)
    fail(ranks, " ranks requested, but the hosts have only ", total_slots, total_slots == 1 ? " slot" : " slots",
         " in total (", join(hosts, ", ", [](const HostSlots& host) { return cat(host.name, ": ", host.slots); }), ")");
  return out;
}

}  // namespace karez::tools
