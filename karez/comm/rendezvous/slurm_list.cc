// Parses Slurm lists: expands brackets in host lists and repetitions in task counts.
#include "karez/comm/rendezvous/slurm_list.h"

#include <algorithm>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::comm {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string_view::npos;
}
std::int64_t parse_number(std::string_view text) { return std::stoll(std::string(text)); }

// Counts the items between brackets: "01-03,07" has 4.
std::int64_t count_items(std::string_view ranges, std::string_view list) {
  std::int64_t count = 0;
  for (const std::string& range : split(ranges, ',')) {
    auto dash = range.find('-');
    std::string from = range.substr(0, dash), to = dash == std::string::npos ? from : range.substr(dash + 1);
    bool valid = is_number(from) && is_number(to) && parse_number(from) <= parse_number(to);
    require(valid, "'", list, "' is not a Slurm host list: '", range, "' is not a range of numbers");
    count = checked_add(count, parse_number(to) - parse_number(from) + 1);
  }
  return count;
}

}  // namespace

SlurmHosts parse_slurm_hosts(std::string_view text) {
  SlurmHosts out;
  std::string name;  // the first host of the current item
  std::int64_t hosts = 1;
  auto end_item = [&] {
    require(!name.empty(), "'", text, "' is not a Slurm host list: a name is missing");
    if (out.count == 0) out.first = name;
    out.count = checked_add(out.count, hosts);
    name.clear();
    hosts = 1;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ',') {
      end_item();
    } else if (text[at] == '[') {
      auto close = text.find(']', at);
      require(close != std::string_view::npos, "'", text, "' is not a Slurm host list: a bracket is not closed");
      std::string_view ranges = text.substr(at + 1, close - at - 1);
      hosts = checked_mul(hosts, count_items(ranges, text));
      name += ranges.substr(0, ranges.find_first_of("-,"));
      at = close;
    } else {
      require(text[at] > ' ' && text[at] != ']', "'", text, "' is not a Slurm host list");
      name += text[at];
    }
  }
  end_item();
  return out;
}

int slurm_tasks_of(std::string_view text, int node) {
  std::int64_t nodes = 0;
  for (const std::string& part : split(text, ',')) {
    auto open = part.find("(x");
    std::string tasks = part.substr(0, open), times = "1";
    bool valid = open == std::string::npos || part.back() == ')';
    if (valid && open != std::string::npos) times = part.substr(open + 2, part.size() - open - 3);
    require(valid && is_number(tasks) && is_number(times), "'", text,
            "' is not a Slurm list of task counts such as 2(x3),1");
    nodes += parse_number(times);
    if (node < nodes) return static_cast<int>(parse_number(tasks));
  }
  fail("'", text, "' has ", nodes, " nodes; this is node ", node, ", counted from 0");
}

}  // namespace karez::comm
