// Prints and parses flight records. A line has a keyword and fields separated by spaces. The last field may be a string
// with spaces, whose line ends are written as \n.
#include "karez/control/flight_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::control {
namespace {

constexpr std::string_view first_line = "karez flight 1";
constexpr std::array kinds = {EventKind::launch_began, EventKind::launch_ended, EventKind::began,   EventKind::ended,
                              EventKind::acted,        EventKind::failed,       EventKind::handed,  EventKind::posted,
                              EventKind::taken,        EventKind::called,       EventKind::used_cpu};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool code = text[i] == '\\' && i + 1 < text.size();
    out += !code ? text[i] : text[i + 1] == 'n' ? '\n' : text[i + 1];
    i += code;
  }
  return out;
}

std::string format_event(const Event& e) {
  return cat("event ", e.time, " ", name_of(e.kind), " ", e.ticket, " ", e.plan, " ", e.actor.index, " ", e.piece, " ",
             e.reg.index, " ", e.slot, " ", e.message == Message::Kind::filled ? "filled" : "returned", "\n");
}

// Reads the words of one line.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}
  std::string_view word() {
    const std::size_t end = std::min(text_.find(' '), text_.size());
    const std::string_view out = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return out;
  }
  template <class Number = std::int64_t> Number number() {
    const std::string_view text = word();
    Number out{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    require(ErrorKind::data, error == std::errc() && end == text.data() + text.size(), "flight record: line ", number_,
            ": '", text, "' is not a number");
    return out;
  }
  std::string rest() { return unescaped(std::exchange(text_, {})); }
  EventKind kind() {
    const std::string_view name = word();
    for (EventKind kind : kinds)
      if (name == name_of(kind)) return kind;
    fail(ErrorKind::data, "flight record: line ", number_, ": unknown event kind '", name, "'");
  }
  int at() const { return number_; }

 private:
  std::string_view text_;
  int number_;
};

Event parse_event(Line& line) {
  Event e;
  e.time = line.number();
  e.kind = line.kind();
  e.ticket = line.number<std::uint32_t>();
  e.plan = line.number<std::int32_t>();
  e.actor = ActorId(line.number<std::int32_t>());
  e.piece = line.number<std::uint32_t>();
  e.reg = RegisterId(line.number<std::int32_t>());
  e.slot = line.number<std::int16_t>();
  e.message = line.word() == "filled" ? Message::Kind::filled : Message::Kind::returned;
  return e;
}

void parse_line(FlightRecord& out, Line& line) {
  const std::string_view what = line.word();
  auto require_after = [&](bool ok, std::string_view earlier) {
    require(ErrorKind::data, ok, "flight record: line ", line.at(), ": '", what, "' must come after a line '", earlier,
            "'");
  };
  if (what == "rank") out.rank = line.number<int>(), out.ranks = line.number<int>(), out.process = line.rest();
  else if (what == "origin") out.origin = line.number();
  else if (what == "failed") out.failed_at = line.number(), out.failure = line.rest();
  else if (what == "inside") out.state.current_call = line.rest();
  else if (what == "waits") {
    const int awaited_rank = line.number<int>();
    out.state.waits.push_back({awaited_rank, line.rest()});
  } else if (what == "plan") {
    const int number = line.number<int>();
    out.plans.push_back({number, line.rest(), {}});
  } else if (what == "actor") {
    require_after(!out.plans.empty(), "plan");
    out.plans.back().actors.push_back({line.number<int>(), line.rest(), ""});
  } else if (what == "where") {
    require_after(!out.plans.empty() && !out.plans.back().actors.empty(), "actor");
    out.plans.back().actors.back().where = line.rest();
  } else if (what == "worker") {
    out.workers.push_back({{}, line.number<std::uint64_t>()});
  } else if (what == "event") {
    require_after(!out.workers.empty(), "worker");
    out.workers.back().events.push_back(parse_event(line));
  } else {
    fail(ErrorKind::data, "flight record: line ", line.at(), ": unknown keyword '", what, "'");
  }
}

}  // namespace

std::string print(const FlightRecord& r) {
  std::string out = cat(first_line, "\nrank ", r.rank, " ", r.ranks, " ", escaped(r.process), "\norigin ", r.origin,
                        "\nfailed ", r.failed_at, " ", escaped(r.failure), "\n");
  if (!r.state.current_call.empty()) out += cat("inside ", escaped(r.state.current_call), "\n");
  for (const RankWait& wait : r.state.waits) out += cat("waits ", wait.rank, " ", escaped(wait.what), "\n");
  for (const FlightPlan& plan : r.plans) {
    out += cat("plan ", plan.number, " ", escaped(plan.name), "\n");
    for (const FlightActor& actor : plan.actors) {
      out += cat("actor ", actor.actor, " ", escaped(actor.name), "\n");
      if (!actor.where.empty()) out += cat("where ", escaped(actor.where), "\n");
    }
  }
  for (const EventLog& log : r.workers) {
    out += cat("worker ", log.overwritten, "\n");
    for (const Event& event : log.events) out += format_event(event);
  }
  return out + "end\n";
}

FlightRecord parse_flight_record(std::string_view text) {
  FlightRecord out;
  bool ended = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    require(ErrorKind::data, number > 1 || line == first_line, "flight record: the first line must be '", first_line,
            "'");
    if (number == 1) continue;
    if (ended || line == "end") {
      require(ErrorKind::data, !ended, "flight record: line ", number, " comes after the line 'end'");
      ended = true;
      continue;
    }
    Line words(line, number);
    parse_line(out, words);
  }
  require(ErrorKind::data, ended, "flight record: the line 'end' is missing; is the file truncated?");
  return out;
}

namespace {

// Writes a new file. Never writes through a symbolic link that another user may have put in its place.
void write_new_file(const std::string& path, std::string_view text) {
  ::unlink(path.c_str());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  bool ok = file >= 0;
  while (ok && !text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    ok = written >= 0;
    if (ok) text.remove_prefix(static_cast<std::size_t>(written));
  }
  const int error_number = errno;
  if (file >= 0) ::close(file);
  require(ErrorKind::data, ok, "cannot write ", path, ": ", std::strerror(error_number));
}

}  // namespace

void write_flight_record(const std::string& folder, const FlightRecord& record) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = flight_record_path(folder, record.rank), part = cat(path, ".part");
  write_new_file(part, print(record));
  fs::rename(part, path, error);  // replaces a link and does not follow it
  require(ErrorKind::data, !error, "cannot create ", path, ": ", error.message());
}

std::string flight_record_path(const std::string& folder, int rank) { return cat(folder, "/rank", rank, ".flight"); }

}  // namespace karez::control
