// Reads files as text, cost tables, plans or graphs, and writes text.
#include "tools/karez/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "karez/api/ranks/link_costs.h"
#include "karez/device/processor.h"
#include "karez/report/predictor.h"

namespace karez::tools {
namespace {

// Changes any error in the contents of a file to an error of kind data that begins with the file's name.
template <class Work> auto with_file_name(const std::string& path, Work work) {
  try {
    return work();
  } catch (const Error& error) { throw Error(ErrorKind::data, cat(path, ": ", error.what()), error.where); }
}

}  // namespace

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  require(ErrorKind::data, !std::filesystem::is_directory(path), "cannot read ", path, ": it is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  require(ErrorKind::data, in.good(), "cannot read ", path, ": ", std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  const bool written = out.flush().good();
  require(ErrorKind::data, written, "cannot write ", path, ": ", std::strerror(errno));
}

CostTable read_costs(const std::string& path, int team) {
  if (path.empty()) return {};
  const std::string text = read_text(path);
  return with_file_name(path, [&] {
    CostTable out = CostTable::parse(text).with_isa(device::processor().isa).with_threads(team, 1);
    if (out.origin.empty()) out.origin = cat("those of ", path);
    return out;
  });
}

CostTable costs_of(const std::string& path, const Plan& plan) {
  if (path.empty()) return report::costs_of(plan);
  int team = 1;
  for (const Actor& actor : plan.actors)
    for (const Call& call : actor.calls) team = std::max(team, call.team);
  const std::vector<int> transfers = transfer_indices(plan);
  std::vector<Mesh> axes;
  for (ActorId a : plan.actors.ids()) {
    const int transfer = transfers[static_cast<std::size_t>(a.index)];
    if (transfer < 0) continue;
    const auto& members = plan.communicators[plan.actor(a).collective->communicator].members;
    Mesh axis = Mesh::of({{std::string(link_axis(plan.transfers[static_cast<std::size_t>(transfer)])),
                           static_cast<int>(members.size())}});
    for (std::size_t m = 0; m < members.size(); ++m) axis.devices[m] = {members[m].rank, members[m].device};
    axes.push_back(std::move(axis));
  }
  return with_class_costs(read_costs(path, team), axes,
                          {.hosts = std::vector<int>(static_cast<std::size_t>(plan.world), 0)});
}

Plan read_plan(const std::string& path) {
  const std::string text = read_text(path);
  return with_file_name(path, [&] { return parse_plan(text); });
}

Plan verified_plan(const std::string& path) {
  Plan plan = read_plan(path);
  with_file_name(path, [&] { verify(plan), report::costs_of(plan); });
  return plan;
}

Graph verified_graph(const std::string& path, const OpTable& ops) {
  const std::string text = read_text(path);
  return with_file_name(path, [&] {
    Graph graph = parse_graph(text, ops);
    verify(graph);
    return graph;
  });
}

}  // namespace karez::tools
