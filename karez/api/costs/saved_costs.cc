// Writes and checks saved cost tables. The first line of a file is "# karez costs 1 CHECKSUM", with the version of the
// format; the second one names the processor. Both are comments of the table that follows.
#include "karez/api/costs/saved_costs.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "karez/base/error.h"
#include "karez/base/hash.h"
#include "karez/base/text.h"

namespace karez {
namespace {

constexpr std::string_view magic = "# karez costs ";
constexpr int version = 1;

std::string machine_line(const device::Processor& processor) {
  return cat("# ", processor.name, "; ", processor.cpus, processor.cpus == 1 ? " CPU\n" : " CPUs\n");
}

std::string first_line(std::string_view rest) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(base::hash_text(rest)));
  return cat(magic, version, " ", digits, "\n");
}

// Returns the line at the beginning of the text, with its end, and removes it from the text.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n') == text.npos ? text.npos : text.find('\n') + 1);
  text.remove_prefix(line.size());
  return line;
}

std::string_view without_mark(std::string_view machine) {  // "# a; 2 CPUs\n" -> "a; 2 CPUs"
  return machine.substr(2, machine.size() - 3);
}

int largest_team(const CostTable& costs, std::string_view isa) {
  int team = 0;
  for (const sbp::RateSet& set : costs.sets)
    if (set.isa == isa) team = std::max(team, set.team);
  return team;
}

// Checks the text of a file, and returns its table. Throws Error with the defect.
CostTable parse_saved(std::string_view text, const device::Processor& processor, int cores) {
  std::string_view rest = text;
  const std::string_view first = take_line(rest);
  int file_version = 0;
  const char* end_of_line = first.data() + first.size();
  const bool is_saved = first.starts_with(magic) &&
                        std::from_chars(first.data() + magic.size(), end_of_line, file_version).ec == std::errc();
  require(ErrorKind::data, is_saved, "was not written by `karez doctor --kernels --save`");
  require(ErrorKind::data, file_version == version, "has version ", file_version, " of the format, and this program ",
          "reads version ", version);
  require(ErrorKind::data, first == first_line(rest), "is incomplete or was modified after it was saved");
  const std::string_view machine = take_line(rest);
  const std::string own_machine = machine_line(processor);
  require(ErrorKind::data, machine == own_machine, "is for another machine (", without_mark(machine),
          ") than this one (", without_mark(own_machine), ")");
  CostTable costs;
  try {
    costs = CostTable::parse(rest);
  } catch (const Error& error) { throw Error(ErrorKind::data, cat("cannot be parsed: ", error.what())); }
  const int team = largest_team(costs, processor.isa);
  require(ErrorKind::data, team > 0, "has no rates for the instruction set ", processor.isa);
  require(ErrorKind::data, team >= cores, "has rates for teams of at most ", team,
          " threads, and this process may use ", cores, " cores");
  return costs;
}

}  // namespace

std::string saved_costs_path(const device::Processor& processor) {
  const auto absolute = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text != nullptr && text[0] == '/' ? text : "");
  };
  std::string folder = absolute("XDG_DATA_HOME");
  if (folder.empty() && !absolute("HOME").empty()) folder = absolute("HOME") + "/.local/share";
  if (folder.empty()) return {};
  std::string name = "costs";  // "AMD EPYC, family 25 model 17" -> "costs-amd-epyc-family-25-model-17"
  bool in_word = false;
  for (const char c : processor.name) {
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_letter && !in_word) name += '-';
    if (is_letter) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    in_word = is_letter;
  }
  return cat(folder, "/karez/", name, ".txt");
}

SavedCosts read_saved_costs(const std::string& path, const device::Processor& processor, int cores) {
  SavedCosts out{path, {}, {}};
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (path.empty() || type == std::filesystem::file_type::not_found) return out;
  if (type != std::filesystem::file_type::regular) return out.defect = "is not a regular file", out;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) return out.defect = cat("cannot be read: ", std::strerror(errno)), out;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  try {
    out.table = parse_saved(text, processor, cores);
  } catch (const Error& defect) { out.defect = defect.what(); }
  return out;
}

void save_costs(const std::string& path, const CostTable& costs, const device::Processor& processor) {
  const std::string rest = machine_line(processor) + costs.print();
  const std::string temporary = cat(path, ".", ::getpid());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  errno = 0;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << first_line(rest) << rest;
  out.close();
  const bool is_written = out.good() && std::rename(temporary.c_str(), path.c_str()) == 0;
  const int reason = error ? error.value() : errno;
  if (!is_written) std::filesystem::remove(temporary, error);
  require(ErrorKind::data, is_written, "cannot save the cost table in ", path, ": ", std::strerror(reason));
}

}  // namespace karez
