// Files as text and as plans.
#include "tools/karez/files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "device/processor.h"

namespace karez::tools {
namespace {

// A file that does not hold what it should is an error of data, whatever the reader of its text calls it.
template <class Work> auto naming(const std::string& path, Work work) {
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

CostTable read_costs(const std::string& path) {
  if (path.empty()) return {};
  const std::string text = read_text(path);
  try {
    return CostTable::parse(text).on(device::processor().isa).on(1, 1);
  } catch (const Error& error) { throw Error(ErrorKind::data, cat(path, ": ", error.what())); }
}

Plan read_plan(const std::string& path) {
  const std::string text = read_text(path);
  return naming(path, [&] { return parse_plan(text); });
}

Plan sound_plan(const std::string& path) {
  Plan plan = read_plan(path);
  naming(path, [&] { verify(plan); });
  return plan;
}

Graph sound_graph(const std::string& path, const OpTable& ops) {
  const std::string text = read_text(path);
  return naming(path, [&] {
    Graph graph = parse_graph(text, ops);
    verify(graph);
    return graph;
  });
}

}  // namespace karez::tools
