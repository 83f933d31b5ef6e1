// Runs a job of ranks in one loop, which handles output, exits of ranks, frames from other hosts, and signals.
#include "tools/karez/run_job.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <optional>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/launcher.h"
#include "karez/comm/rendezvous/sodium.h"
#include "tools/karez/rank_group.h"
#include "tools/karez/rank_printer.h"
#include "tools/karez/remote_agent.h"
#include "tools/karez/run_ranks.h"
#include "tools/karez/shutdown_escalation.h"
#include "tools/karez/signals.h"

extern char** environ;

namespace karez::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto agent_timeout = std::chrono::seconds(30);

// Returns whether the variable is sent to other hosts; variables of a single rank or host are not.
bool is_exported(const std::string& name, const std::vector<std::string>& exports) {
  for (const char* variable :
       {"KAREZ_RANK", "KAREZ_LOCAL_RANK", "KAREZ_LOCAL_RANKS", "KAREZ_CROWDED", "KAREZ_HOST", "KAREZ_INTERFACE"})
    if (name == variable) return false;
  return starts_with(name, "KAREZ_") || starts_with(name, "OMP_") ||
         std::count(exports.begin(), exports.end(), name) > 0;
}

std::vector<std::pair<std::string, std::string>> exported_variables(const std::vector<std::string>& exports) {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const auto equals = entry.find('=');
    if (equals != std::string::npos && is_exported(entry.substr(0, equals), exports))
      out.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return out;
}

bool is_local_host(const std::string& host) {
  const std::string own_host = host_name();
  return host == "localhost" || host == own_host || host == own_host.substr(0, own_host.find('.'));
}

void print_message(const std::string& text) { std::fprintf(stderr, "karez run: %s\n", text.c_str()); }

class Job {
 public:
  explicit Job(const RunOptions& options)
      : options_(options),
        printer_(options.ranks, options.output, options.prefix) {}

  int run() {
    assign_ranks();
    await_agents();
    begin();
    while (running_ > 0 || (printer_.blocked() && !interrupted_)) step(std::nullopt);
    printer_.drop();
    for (const std::string& line : exit_report(ends_, interrupted_)) print_message(line);
    return job_result(ends_, interrupted_).code;
  }

 private:
  struct HostShare {  // the ranks of one host
    int first = 0, ranks = 0;
    RemoteAgent* agent = nullptr;  // null: this host
    std::string host = "";
  };

  // Assigns ranks to slots in the order of the hosts; all names of this host count as one host.
  void assign_ranks() {
    std::vector<HostSlots> hosts;
    for (HostSlots host : options_.hosts) {
      if (is_local_host(host.name)) host.name = "localhost";
      auto at =
          std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& other) { return other.name == host.name; });
      if (at == hosts.end()) hosts.push_back(host);
      else at->slots += host.slots;
    }
    if (hosts.empty()) hosts.push_back({"localhost", options_.ranks});
    const std::vector<int> rank_counts = deal_ranks(hosts, options_.ranks);
    int first = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (rank_counts[i] == 0) continue;
      HostShare share{first, rank_counts[i], nullptr, hosts[i].name};
      if (hosts[i].name != "localhost") {
        std::vector<std::string> words = options_.rsh;
        words.push_back(hosts[i].name);
        words.insert(words.end(), options_.agent.begin(), options_.agent.end());
        share.agent = &agents_.emplace_back(hosts[i].name, std::move(words));
      }
      shares_.push_back(share);
      first += rank_counts[i];
    }
    names_.resize(static_cast<std::size_t>(options_.ranks));
    ended_.resize(static_cast<std::size_t>(options_.ranks));
    running_ = options_.ranks;
  }

  void await_agents() {
    const auto deadline = Clock::now() + agent_timeout;
    auto missing = [&] {
      return std::find_if(agents_.begin(), agents_.end(), [](const RemoteAgent& host) { return !host.port(); });
    };
    while (missing() != agents_.end()) {
      require(ErrorKind::peer, Clock::now() < deadline, "host ", missing()->name(), " did not respond within ",
              agent_timeout.count(), " s");
      for (RemoteAgent& host : agents_)
        if (host.closed())
          fail(ErrorKind::peer, "no agent started on host ", host.name(), ": '", join(options_.rsh, " "), " ",
               host.name(), "' ", host.exit_description());
      step(deadline);
      if (interrupted_) fail(ErrorKind::peer, "interrupted before the agents of all hosts had started");
    }
  }

  // Chooses the address of rank 0's store and the token, then starts all ranks.
  void begin() {
    RunJob job{options_.words, {}, "", 0, 0, options_.bind};
    std::string store = cat("@karez-", comm::print(random_token()).substr(0, 32));
    if (shares_.size() > 1) {
      const HostShare& first_host = shares_[0];
      std::string host =
          first_host.agent == nullptr ? host_name() : first_host.host.substr(first_host.host.find('@') + 1);
      if (!options_.address.empty()) host = options_.address;
      if (host.find(':') != std::string::npos) host = cat("[", host, "]");
      store = cat(host, ":", first_host.agent == nullptr ? comm::free_ports() : *first_host.agent->port());
    }
    std::vector<std::pair<std::string, std::string>> variables = {{"KAREZ_RANKS", std::to_string(options_.ranks)},
                                                                  {"KAREZ_STORE", store},
                                                                  {"KAREZ_TOKEN", comm::print(random_token())}};
    if (!options_.output.empty() && std::getenv("KAREZ_FLIGHT") == nullptr)
      variables.emplace_back("KAREZ_FLIGHT", std::filesystem::absolute(options_.output).string());
    if (options_.devices > 0) variables.emplace_back("KAREZ_DEVICES", std::to_string(options_.devices));
    for (const HostShare& share : shares_) {
      job.first_rank = share.first;
      job.local_ranks = share.ranks;
      job.variables = share.agent != nullptr ? exported_variables(options_.exports)
                                             : std::vector<std::pair<std::string, std::string>>{};
      job.variables.insert(job.variables.end(), variables.begin(), variables.end());
      job.folder = share.agent != nullptr ? std::filesystem::current_path().string() : "";
      if (share.agent != nullptr) share.agent->send({RunFrame::Kind::job, 0, encode(job)});
      else start_local(job);
    }
  }

  void start_local(const RunJob& job) {
    local_group_.emplace();
    start_ranks(*local_group_, job);
    for (int rank = job.first_rank; rank < job.first_rank + job.local_ranks; ++rank)
      name(rank) = name_of_rank(*local_group_, rank);
  }

  // Waits for the next event, at most until the given time, and handles it.
  void step(std::optional<Clock::time_point> deadline) {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    // A blocked destination blocks the ranks whose output it receives, as if they wrote to it directly. All frames of a
    // host arrive in one stream, so any blocked destination stops the reading of frames.
    const auto filter = [&](int rank, bool error) { return interrupted_ || !printer_.blocked(rank, error); };
    const bool reads_frames = interrupted_ || !printer_.blocked();
    if (local_group_) local_group_->add_to(polled, filter);
    for (const RemoteAgent& host : agents_)
      if (reads_frames) host.add_to(polled);
    printer_.add_to(polled);
    if (auto next = escalation_.next(); next && (!deadline || *next < *deadline)) deadline = next;
    int milliseconds = -1;
    if (deadline)
      milliseconds =
          std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count()));
    poll(polled.data(), polled.size(), milliseconds);
    while (auto signal = signals_.take())
      if (*signal != SIGCHLD) interrupt(*signal);
    printer_.flush_pending();
    if (interrupted_) printer_.drop();
    if (local_group_)
      local_group_->collect([&](int rank, bool error, std::string_view bytes) { printer_.print(rank, error, bytes); },
                            [&](int rank, int status) { end(rank, status); }, filter);
    if (reads_frames)
      for (RemoteAgent& host : agents_) receive_from(host);
    while (auto failure = printer_.take_failure()) report_failure(*failure);
    while (auto signal = escalation_.due(Clock::now())) {
      if (local_group_) local_group_->signal(*signal);
      for (RemoteAgent& host : agents_) host.send({RunFrame::Kind::signal, *signal, ""});
    }
  }

  void receive_from(RemoteAgent& host) {
    using Kind = RunFrame::Kind;
    for (const RunFrame& frame : host.receive()) {
      require(frame.kind != Kind::refused, "host ", host.name(), ": ", frame.bytes);
      require(ErrorKind::peer, frame.number < options_.ranks, "host ", host.name(), " reported rank ", frame.number,
              " of ", options_.ranks);
      if (frame.kind == Kind::started) name(frame.number) = frame.bytes;
      if (frame.kind == Kind::output || frame.kind == Kind::errors)
        printer_.print(frame.number, frame.kind == Kind::errors, frame.bytes);
      if (frame.kind == Kind::ended) end(frame.number, std::atoi(frame.bytes.c_str()));
    }
    if (!host.closed()) return;
    for (const HostShare& share : shares_) {
      if (share.agent != &host) continue;
      bool is_reported = false;
      for (int rank = share.first; rank < share.first + share.ranks; ++rank) {
        if (ended_[static_cast<std::size_t>(rank)] || running_ == 0) continue;
        if (!is_reported) print_message(cat("host ", host.name(), " is gone: its agent ", host.exit_description()));
        is_reported = true;
        end(rank, -1);
      }
    }
  }

  // A full disk does not end the job. A closed pipe does, as it ends any program that writes to the pipe.
  void report_failure(const WriteFailure& failure) {
    const bool is_closed = failure.number == EPIPE;
    print_message(cat("cannot write to ", failure.where, ": ", std::strerror(failure.number),
                      is_closed ? "; the job ends" : "; the job continues without this output"));
    if (is_closed) interrupt(SIGTERM);
  }

  void end(int rank, int status) {
    auto ended_entry = ended_.begin() + rank;
    if (*ended_entry) return;
    *ended_entry = true;
    --running_;
    printer_.finish_rank(rank);
    ends_.push_back({rank, name(rank).empty() ? cat("rank ", rank) : name(rank), status, escalation_.begun(),
                     printer_.stderr_tail(rank)});
    const RankExit& end = ends_.back();
    if (end.good() || end.after_signal) return;
    if (!reports_other_rank(end)) print_message(tools::print(end));
    escalation_.failed(Clock::now());
  }

  void interrupt(int signal) {
    if (!interrupted_) interrupted_ = signal;
    escalation_.interrupted(signal, Clock::now());
  }

  std::string& name(int rank) { return names_[static_cast<std::size_t>(rank)]; }

  const RunOptions& options_;
  Signals signals_;  // constructed before any child process
  RankPrinter printer_;
  std::list<RemoteAgent> agents_;
  std::optional<RankGroup> local_group_;
  std::vector<HostShare> shares_;
  std::vector<std::string> names_;
  std::vector<bool> ended_;
  std::vector<RankExit> ends_;
  int running_ = 0;  // ranks that have not ended
  ShutdownEscalation escalation_;
  std::optional<int> interrupted_;
};

}  // namespace

int run_job(const RunOptions& options) {
  std::fflush(nullptr);
  return Job(options).run();
}

}  // namespace karez::tools
