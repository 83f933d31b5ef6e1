// Formats the times of a profile as a table.
#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/report/profile.h"
#include "karez/report/table.h"

namespace karez::report {
namespace {

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

void add(ProfileRow& sum, const ProfileRow& row) {
  sum.calls += row.calls, sum.time += row.time, sum.hidden += row.hidden, sum.waited += row.waited;
  sum.cpu += row.cpu, sum.cpu_of += row.cpu_of, sum.bytes += row.bytes;
}

std::string module_of(const ProfileRow& row) {
  std::string module = row.module;
  if (const std::size_t end = module.find("(grad)"); end != module.npos) module = module.substr(0, end);
  if (!module.empty() && module.back() == ' ') module.pop_back();
  return module.empty() ? "(no module)" : module;
}

// One row for each module or op, the longest first.
std::vector<ProfileRow> grouped(const std::vector<ProfileRow>& rows, ProfileBy by) {
  std::map<std::string, ProfileRow> groups;
  for (const ProfileRow& row : rows) {
    const std::string name = by == ProfileBy::module ? module_of(row) : row.op;
    ProfileRow& group = groups[name];
    (by == ProfileBy::module ? group.module : group.op) = name;
    add(group, row);
  }
  std::vector<ProfileRow> out;
  out.reserve(groups.size());
  for (const auto& [name, row] : groups) out.push_back(row);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return out;
}

class Table {
 public:
  Table(const ProfileTimes& times, ProfileBy by, bool has_hidden) : times_(times), by_(by), has_hidden_(has_hidden) {
    std::vector<std::string> head = {"ms", "of the step", "calls", "us a call", "CPU", "MiB", "waited ms"};
    if (has_hidden) head.push_back("hidden ms");
    if (by != ProfileBy::module) head.push_back("op");
    if (by == ProfileBy::op) head.push_back("line");
    if (by != ProfileBy::kind) head.push_back("module");
    if (by == ProfileBy::op) head.push_back("kernel");
    rows_.push_back(std::move(head));
  }
  void add_row(const ProfileRow& row) {
    std::vector<std::string> cells = {
        milliseconds(row.time),
        share(row.time),
        cat(row.calls),
        row.calls > 0 ? fixed(static_cast<double>(row.time + row.hidden) / 1e3 / static_cast<double>(row.calls), 1)
                      : "",
        row.cpu_of > 0 ? cat(fixed(100 * static_cast<double>(row.cpu) / static_cast<double>(row.cpu_of), 0), " %") : "",
        fixed(row.bytes / (1 << 20), 2),
        milliseconds(row.waited)};
    if (has_hidden_) cells.push_back(milliseconds(row.hidden));
    if (by_ != ProfileBy::module) cells.push_back(shortened(row.op, by_ == ProfileBy::op ? 40 : 100));
    if (by_ == ProfileBy::op) cells.push_back(row.line);
    if (by_ != ProfileBy::kind) cells.push_back(row.module);
    if (by_ == ProfileBy::op) cells.push_back(shortened(row.kernel, 60));
    rows_.push_back(std::move(cells));
  }
  void add_sum(std::int64_t time, const std::string& text) {
    rows_.push_back({milliseconds(time), share(time)});
    sums_.push_back(text);
  }
  // The text of a sum follows its two numbers.
  std::string print() const {
    std::string out;
    std::size_t line = 0, begin = 0;
    const std::string text = report::table(rows_);
    for (std::size_t end = text.find('\n'); end != text.npos; begin = end + 1, end = text.find('\n', begin), ++line) {
      out += text.substr(begin, end - begin);
      if (const std::size_t first = rows_.size() - sums_.size(); line >= first) out += cat("  ", sums_[line - first]);
      out += "\n";
    }
    return out;
  }

 private:
  static std::string milliseconds(std::int64_t ns) { return fixed(static_cast<double>(ns) / 1e6, 3); }
  std::string share(std::int64_t time) const {
    return cat(
        fixed(100 * static_cast<double>(time) / static_cast<double>(std::max<std::int64_t>(times_.total(), 1)), 1),
        " %");
  }

  const ProfileTimes& times_;
  const ProfileBy by_;
  const bool has_hidden_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::string> sums_;
};

std::string counted(std::int64_t number, const char* noun) { return cat(number, " ", noun, number == 1 ? "" : "es"); }

}  // namespace

std::string profile_table(const ProfileTimes& times, ProfileBy by, std::size_t max_rows) {
  std::string notes;
  if (times.unfinished > 0)
    notes += cat("  ", counted(times.unfinished, "launch"), " had not ended or lost events, and ",
                 times.unfinished == 1 ? "is" : "are", " left out\n");
  if (times.lost > 0)
    notes += cat("  ", times.lost, " events were lost, so times of calls are missing and count as launch overhead\n");
  if (times.launches == 0) return cat("no launch was recorded\n", notes);
  const double step = static_cast<double>(times.end - times.begin) / 1e6 / static_cast<double>(times.launches);
  std::string out = cat(counted(times.launches, "launch"), ", ", fixed(step, 3), " ms a step, ", times.workers,
                        times.workers == 1 ? " worker" : " workers",
                        times.workers == 1 ? "\n" : "; times are sums over the workers\n", notes);

  const std::vector<ProfileRow> rows = by == ProfileBy::op ? times.rows : grouped(times.rows, by);
  Table table(times, by, std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.hidden > 0; }));
  ProfileRow sum, rest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add(sum, rows[i]);
    if (i < max_rows || rows.size() == max_rows + 1) table.add_row(rows[i]);
    else add(rest, rows[i]);
  }
  if (rest.calls > 0) {
    (by == ProfileBy::module ? rest.module : rest.op) = cat("(", rows.size() - max_rows, " other rows)");
    table.add_row(rest);
  }
  table.add_sum(sum.time, by == ProfileBy::module ? "sum of the modules" : "sum of the ops");
  if (times.other > 0) table.add_sum(times.other, "calls of other launches");
  table.add_sum(times.waiting, "waiting: a launch ran, and a worker had no act that could run");
  table.add_sum(times.overhead, "launch overhead: to begin and end launches and acts");
  table.add_sum(times.stall, "data stall: no launch, and the program waited for a data set");
  table.add_sum(times.program, "program: no launch otherwise");
  return out + table.print();
}

}  // namespace karez::report
