// Merges traces with nlohmann-json.
#include "tools/karez/merge_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "karez/base/error.h"

namespace karez::tools {
namespace {
using nlohmann::json;

struct File {
  json trace;
  std::int64_t origin = 0;  // ns since 1970
};

File parse(const std::string& name, const std::string& text) {
  File out;
  try {
    out.trace = json::parse(text);
    out.origin = out.trace.at("otherData").at("origin_ns").get<std::int64_t>();
    require(ErrorKind::data, out.trace.at("traceEvents").is_array(), "traceEvents is not a list");
    for (const json& event : out.trace["traceEvents"])
      require(ErrorKind::data,
              event.at("pid").is_number_integer() && (event.at("ph") == "M" || event.at("ts").is_number()),
              "an event has no process or time");
  } catch (const std::exception& error) {
    fail(ErrorKind::data, name, " is not a trace that a Karez program has written: ", error.what());
  }
  return out;
}

}  // namespace

std::string merge_traces(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<File> parsed;
  parsed.reserve(files.size());
  for (const auto& [name, text] : files) parsed.push_back(parse(name, text));
  std::int64_t first = INT64_MAX;
  for (const File& file : parsed) first = std::min(first, file.origin);
  json events = json::array();
  std::set<std::int64_t> used;
  std::int64_t lost = 0;
  for (File& file : parsed) {
    std::map<std::int64_t, std::int64_t> processes;
    const double shift = static_cast<double>(file.origin - first) / 1e3;
    lost += file.trace["otherData"].value("lost_events", std::int64_t{0});
    for (json& event : file.trace["traceEvents"]) {
      const auto process = event["pid"].get<std::int64_t>();
      if (processes.count(process) == 0) {
        processes[process] = used.count(process) == 0 ? process : *used.rbegin() + 1;
        used.insert(processes[process]);
      }
      event["pid"] = processes[process];
      if (event.contains("ts")) event["ts"] = std::round((event["ts"].get<double>() + shift) * 1e3) / 1e3;
      events.push_back(std::move(event));
    }
  }
  const json out = {{"displayTimeUnit", "ns"},
                    {"otherData", {{"origin_ns", parsed.empty() ? 0 : first}, {"lost_events", lost}}},
                    {"traceEvents", std::move(events)}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace karez::tools
