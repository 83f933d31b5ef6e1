// Runs a job of ranks: one loop over output, ends of ranks, frames of other hosts, and signals.
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
#include "karez/comm/launcher.h"
#include "karez/comm/sodium.h"
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
constexpr auto agents_begin_within = std::chrono::seconds(30);

// Whether the variable is sent to other hosts; those of a single rank or host are not.
bool is_exported(const std::string& name, const std::vector<std::string>& exports) {
  for (const char* own :
       {"KAREZ_RANK", "KAREZ_LOCAL_RANK", "KAREZ_LOCAL_RANKS", "KAREZ_CROWDED", "KAREZ_HOST", "KAREZ_INTERFACE"})
    if (name == own) return false;
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
  const std::string own = host_name();
  return host == "localhost" || host == own || host == own.substr(0, own.find('.'));
}

void print_message(const std::string& text) { std::fprintf(stderr, "karez run: %s\n", text.c_str()); }

class Job {
 public:
  explicit Job(const RunOptions& options)
      : options_(options),
        printer_(options.ranks, options.output, options.prefix) {}

  int run() {
    place();
    await_agents();
    begin();
    while (left_ > 0 || (printer_.blocked() && !interrupted_)) step(std::nullopt);
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
  void place() {
    std::vector<HostSlots> hosts;
    for (HostSlots host : options_.hosts) {
      if (is_local_host(host.name)) host.name = "localhost";
      auto at =
          std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& other) { return other.name == host.name; });
      if (at == hosts.end()) hosts.push_back(host);
      else at->slots += host.slots;
    }
    if (hosts.empty()) hosts.push_back({"localhost", options_.ranks});
    const std::vector<int> dealt = deal_ranks(hosts, options_.ranks);
    int first = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (dealt[i] == 0) continue;
      HostShare share{first, dealt[i], nullptr, hosts[i].name};
      if (hosts[i].name != "localhost") {
        std::vector<std::string> words = options_.rsh;
        words.push_back(hosts[i].name);
        words.insert(words.end(), options_.agent.begin(), options_.agent.end());
        share.agent = &agents_.emplace_back(hosts[i].name, std::move(words));
      }
      shares_.push_back(share);
      first += dealt[i];
    }
    names_.resize(static_cast<std::size_t>(options_.ranks));
    ended_.resize(static_cast<std::size_t>(options_.ranks));
    left_ = options_.ranks;
  }

  void await_agents() {
    const auto until = Clock::now() + agents_begin_within;
    auto missing = [&] {
      return std::find_if(agents_.begin(), agents_.end(), [](const RemoteAgent& host) { return !host.port(); });
    };
    while (missing() != agents_.end()) {
      require(ErrorKind::peer, Clock::now() < until, "host ", missing()->name(), " did not respond within ",
              agents_begin_within.count(), " s");
      for (RemoteAgent& host : agents_)
        require(ErrorKind::peer, !host.closed(), "no agent started on host ", host.name(), ": '",
                join(options_.rsh, " "), " ", host.name(), "' ", host.exit_description());
      step(until);
      if (interrupted_) fail(ErrorKind::peer, "interrupted before the agents of all hosts had started");
    }
  }

  // Chooses the address of rank 0's store and the token, then starts all ranks.
  void begin() {
    RunJob job{options_.words, {}, "", 0, 0, options_.bind};
    std::string store = cat("@karez-", comm::print(random_token()).substr(0, 32));
    if (shares_.size() > 1) {
      const HostShare& zero = shares_[0];
      std::string host = zero.agent == nullptr ? host_name() : zero.host.substr(zero.host.find('@') + 1);
      if (!options_.address.empty()) host = options_.address;
      if (host.find(':') != std::string::npos) host = cat("[", host, "]");
      store = cat(host, ":", zero.agent == nullptr ? comm::free_ports() : *zero.agent->port());
    }
    std::vector<std::pair<std::string, std::string>> own = {{"KAREZ_RANKS", std::to_string(options_.ranks)},
                                                            {"KAREZ_STORE", store},
                                                            {"KAREZ_TOKEN", comm::print(random_token())}};
    if (!options_.output.empty() && std::getenv("KAREZ_FLIGHT") == nullptr)
      own.emplace_back("KAREZ_FLIGHT", std::filesystem::absolute(options_.output).string());
    if (options_.devices > 0) own.emplace_back("KAREZ_DEVICES", std::to_string(options_.devices));
    for (const HostShare& share : shares_) {
      job.first_rank = share.first;
      job.local_ranks = share.ranks;
      job.variables = share.agent != nullptr ? exported_variables(options_.exports)
                                             : std::vector<std::pair<std::string, std::string>>{};
      job.variables.insert(job.variables.end(), own.begin(), own.end());
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
  void step(std::optional<Clock::time_point> until) {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    // A blocked destination blocks its ranks, as if they wrote to it. The frames of a host come in one stream.
    const auto wanted = [&](int rank, bool error) { return interrupted_ || !printer_.blocked(rank, error); };
    const bool listens = interrupted_ || !printer_.blocked();
    if (local_group_) local_group_->add_to(polled, wanted);
    for (const RemoteAgent& host : agents_)
      if (listens) host.add_to(polled);
    printer_.add_to(polled);
    if (auto next = escalation_.next(); next && (!until || *next < *until)) until = next;
    int milliseconds = -1;
    if (until)
      milliseconds =
          std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count()));
    poll(polled.data(), polled.size(), milliseconds);
    while (auto signal = signals_.take())
      if (*signal != SIGCHLD) interrupt(*signal);
    printer_.flush_pending();
    if (interrupted_) printer_.drop();
    if (local_group_)
      local_group_->collect([&](int rank, bool error, std::string_view bytes) { printer_.print(rank, error, bytes); },
                            [&](int rank, int status) { end(rank, status); }, wanted);
    if (listens)
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
      bool told = false;
      for (int rank = share.first; rank < share.first + share.ranks; ++rank) {
        if (ended_[static_cast<std::size_t>(rank)] || left_ == 0) continue;
        if (!told) print_message(cat("host ", host.name(), " is gone: its agent ", host.exit_description()));
        told = true;
        end(rank, -1);
      }
    }
  }

  // A full disk does not end the job. A closed reader does, as it ends any program that writes to it.
  void report_failure(const WriteFailure& failure) {
    const bool unread = failure.number == EPIPE;
    print_message(cat("cannot write to ", failure.where, ": ", std::strerror(failure.number),
                      unread ? "; the job ends" : "; the job continues without this output"));
    if (unread) interrupt(SIGTERM);
  }

  void end(int rank, int status) {
    auto seen = ended_.begin() + rank;
    if (*seen) return;
    *seen = true;
    --left_;
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
  int left_ = 0;  // ranks that have not ended
  ShutdownEscalation escalation_;
  std::optional<int> interrupted_;
};

}  // namespace

int run_job(const RunOptions& options) {
  std::fflush(nullptr);
  return Job(options).run();
}

}  // namespace karez::tools
