// karez flight: explains the flight records of a job that failed.
#include "tools/karez/flight.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/control/flight_recorder.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

std::int64_t failure_time(const FlightRecord& r) { return r.origin + r.failed_at; }

std::string clock_text(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%06d UTC", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(nanoseconds % 1'000'000'000 / 1000));
  return text;
}

std::string time_before_text(std::int64_t nanoseconds) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f ms before", static_cast<double>(nanoseconds) * 1e-6);
  return text;
}

// Returns "a3 'compute.1'" for an actor of a plan that the record names.
std::string actor_text(const FlightRecord& r, int plan, int actor) {
  for (const FlightPlan& p : r.plans) {
    if (p.number != plan) continue;
    for (const FlightActor& a : p.actors)
      if (a.actor == actor) return cat("a", actor, " '", a.name, "'", a.where.empty() ? "" : cat(" (", a.where, ")"));
  }
  return cat("a", actor, " of plan ", plan);
}

// Lists the last begin or end of a launch that a worker recorded, the acts that the worker had begun and not ended, and
// the last act that it ended.
std::vector<std::string> last_acts(const FlightRecord& r, const EventLog& log) {
  std::map<std::pair<int, int>, Event> running;  // by plan and actor
  std::optional<Event> ended, launch;
  for (const Event& e : log.events) {
    const auto key = std::pair(e.plan, e.actor.index);
    if (e.kind == EventKind::began) running.insert_or_assign(key, e);
    if (e.kind == EventKind::ended || e.kind == EventKind::acted) running.erase(key), ended = e;
    if (e.kind == EventKind::launch_began || e.kind == EventKind::launch_ended) launch = e;
  }
  auto time_text = [&](const Event& e) { return time_before_text(r.failed_at - e.time); };
  std::vector<std::string> out;
  if (launch)
    out.push_back(cat("launch ", launch->ticket, launch->kind == EventKind::launch_began ? " began " : " ended ",
                      time_text(*launch)));
  for (const auto& [key, e] : running)
    out.push_back(cat(actor_text(r, e.plan, e.actor.index), " of launch ", e.ticket, " began ", time_text(e),
                      " and had not ended"));
  if (ended)
    out.push_back(cat(actor_text(r, ended->plan, ended->actor.index), " of launch ", ended->ticket, " ended last, ",
                      time_text(*ended)));
  if (log.events.empty()) out.push_back("nothing");
  return out;
}

class FlightReport {
 public:
  explicit FlightReport(const std::vector<FlightRecord>& records) : records_(records) {
    for (const FlightRecord& r : records) {
      ranks_ = std::max(ranks_, r.ranks);
      by_rank_[r.rank] = &r;
    }
  }

  std::string text() const {
    std::string out = cat(ranks_, ranks_ == 1 ? " rank" : " ranks", ", ", records_.size(),
                          records_.size() == 1 ? " record\n" : " records\n");
    for (int rank : missing())
      out += cat("  rank ", rank, " has no record: it was stopped or killed, or it writes to another folder\n");
    const FlightRecord& first = *std::min_element(records_.begin(), records_.end(), [](const auto& a, const auto& b) {
      return failure_time(a) < failure_time(b);
    });
    out += cat("first failure: rank ", first.rank, " (", first.process, ") at ", clock_text(failure_time(first)), ": ",
               first.failure, "\n");
    out += waits();
    out += cause_text();
    return out + acts();
  }

 private:
  std::vector<int> missing() const {
    std::vector<int> out;
    for (int rank = 0; rank < ranks_; ++rank)
      if (by_rank_.count(rank) == 0) out.push_back(rank);
    return out;
  }

  std::string waits() const {
    std::string out = "waits between ranks\n";
    for (const FlightRecord& r : records_) {
      for (const RankWait& wait : r.state.waits) out += cat("  rank ", r.rank, " waited for ", wait.text(), "\n");
      if (!r.state.current_call.empty()) out += cat("  rank ", r.rank, " was inside ", r.state.current_call, "\n");
      else if (r.state.waits.empty()) out += cat("  rank ", r.rank, " waited for no rank\n");
    }
    return out;
  }

  bool waits_for_no_rank(int rank) const {
    if (by_rank_.count(rank) == 0) return true;
    const RankState& state = by_rank_.at(rank)->state;
    return !state.waits_for_rank() || state.data_wait() != nullptr || !state.current_call.empty();
  }

  // Reports the ends of all chains of waits: ranks for which others wait and which wait for no rank.
  std::string cause_text() const {
    std::map<int, std::set<int>> waiting;  // the ranks that wait, by the rank for which they wait
    for (const FlightRecord& r : records_)
      for (const RankWait& wait : r.state.waits)
        for (int rank = 0; rank < ranks_; ++rank)
          if (rank != r.rank && (wait.rank == rank || (wait.rank == RankWait::others && waits_for_no_rank(rank))))
            waiting[rank].insert(r.rank);
    std::string out;
    for (const auto& [rank, waiters] : waiting) {
      if (!waits_for_no_rank(rank)) continue;
      out += cat("cause: rank ", rank, ", for which ", waiters.size() == 1 ? "rank " : "ranks ", join(waiters, ", "),
                 " waited, ", reason_text(rank), "\n");
    }
    if (out.empty() && !waiting.empty()) return "the waits form a cycle\n";
    return out;
  }

  // Why a rank had not reached the point at which others waited for it.
  std::string reason_text(int rank) const {
    if (by_rank_.count(rank) == 0) return "has no record";
    const RankState& state = by_rank_.at(rank)->state;
    if (!state.current_call.empty()) return cat("was inside ", state.current_call);
    if (const RankWait* wait = state.data_wait()) return cat("waited for ", wait->text());
    return "waited for no rank: its program had not reached the call";
  }

  std::string acts() const {
    std::string out = "last events of each worker, with the time before the failure\n";
    for (const FlightRecord& r : records_)
      for (std::size_t worker = 0; worker < r.workers.size(); ++worker)
        for (const std::string& line : last_acts(r, r.workers[worker]))
          out += cat("  rank ", r.rank, ", worker ", worker, ": ", line, "\n");
    return out;
  }

  const std::vector<FlightRecord>& records_;
  std::map<int, const FlightRecord*> by_rank_;
  int ranks_ = 1;
};

int run(const std::string& folder) {
  std::printf("%s", explain_flight(read_flights(folder)).c_str());
  return 0;
}

}  // namespace

std::vector<FlightRecord> read_flights(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<FlightRecord> out;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".flight") continue;
    try {
      out.push_back(control::parse_flight_record(read_text(entry.path().string())));
    } catch (const Error& parse_error) {
      throw Error(ErrorKind::data, cat(entry.path().string(), ": ", parse_error.what()));
    }
  }
  require(ErrorKind::data, !error, "cannot read the folder ", folder, ": ", error.message());
  require(ErrorKind::data, !out.empty(), folder,
          " has no flight record (rankN.flight): nothing failed, or KAREZ_FLIGHT named a different folder");
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

std::string explain_flight(const std::vector<FlightRecord>& records) { return FlightReport(records).text(); }

Command flight_command() {
  auto folder = std::make_shared<std::string>();
  return {"flight",
          "Explains the records that ranks write after a failure (KAREZ_FLIGHT, or karez run --output).",
          {},
          nullptr,
          {{"explain",
            "Merges the records of all ranks, and prints the waits between ranks and the last events of each worker.",
            {{"DIR", "the folder with rank0.flight and so on", folder.get()}},
            [folder] { return run(*folder); },
            {}}}};
}

}  // namespace karez::tools
