// Implements WorldRanks: joins the other ranks, and agrees with them on settings through the store.
#include "karez/api/ranks/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/ranks/job_launch.h"
#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/comm/rendezvous/rendezvous.h"
#include "karez/comm/transport/reactor.h"
#include "karez/device/cpu_budget.h"

namespace karez {

struct WorldRanks::Connections {
  Connections(const comm::JobLaunch& launch, int world, const Ranks& where, double timeout,
              const comm::ListenerWait& wait)
      : rendezvous(reactor, launch, world, comm::Seconds(timeout), store_timeout, wait),
        peers(reactor, rendezvous.store(), rendezvous.token(),
              {.rank = launch.rank,
               .ranks = launch.ranks,
               .interface = rendezvous.interface(),
               .force = comm::link_class_from(where.link),
               .host = where.host,
               // A rank that stops during this wait is detected by its heartbeat.
               .timeout = comm::Seconds(std::max(timeout, 30.0)),
               .peer_timeout = comm::Seconds(timeout)}) {}

  // The timeout is long, because a rank may compute for a long time between two store operations. If a rank exits, this
  // is reported immediately.
  static constexpr comm::Seconds store_timeout{24 * 3600.0};
  comm::Reactor reactor;
  comm::Rendezvous rendezvous;
  comm::Peers peers;
};

namespace {

// Waits with exponentially growing pauses of at most 50 ms.
class Backoff {
 public:
  void wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, std::chrono::milliseconds(50));
  }

 private:
  std::chrono::milliseconds next_{1};
};

std::string rank_info_key(int rank) { return cat("rank_info/", rank); }

}  // namespace

namespace {

// Formats a list of ranks: "rank 2" or "ranks 2, 5 and 7"; a long list shows the first eight ranks.
std::string format_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t max_listed = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), max_listed); ++i)
    out += cat(i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  return ranks.size() > max_listed ? cat(out, " and ", ranks.size() - max_listed, " more") : out;
}

}  // namespace

// Runs on rank 0: waits for ranks that start slowly. If ranks do not join in time, rank 0 and the ranks that have
// joined throw an error that names the missing ranks.
void WorldRanks::await_ranks(const WorldOptions& options) const {
  using Clock = std::chrono::steady_clock;
  comm::StoreClient& store = connections_->rendezvous.store();
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  bool warned = false;
  std::string duplicate_message;
  std::vector<int> missing;
  for (int rank = 1; rank < ranks_; ++rank) missing.push_back(rank);
  for (Backoff backoff;; backoff.wait()) {
    std::erase_if(missing, [&](int rank) { return connections_->peers.has_joined(rank); });
    if (missing.empty()) return;
    store.check();
    if (options.while_waiting) options.while_waiting();
    if (const auto message = store.get(comm::Store::duplicate_rank_key); message && *message != duplicate_message) {
      duplicate_message = *message;
      note(base::LogLevel::warning, duplicate_message);
    }
    if (elapsed() > options.start_timeout) break;
    if (warned || elapsed() < peer_timeout_) continue;
    warned = true;
    note(base::LogLevel::warning, format_ranks(missing), " of ", ranks_, missing.size() == 1 ? " has" : " have",
         " not joined this world after ", peer_timeout_, " s; still waiting");
  }
  const std::string reason = cat(format_ranks(missing), " of ", ranks_, missing.size() == 1 ? " has" : " have",
                                 " not joined this world within start_timeout = ", options.start_timeout, " s",
                                 duplicate_message.empty() ? "" : "; ", duplicate_message);
  store.set("agreed", "?" + reason);
  await_readers("refused");
  fail(ErrorKind::peer, reason);
}

namespace {

// Runs on ranks other than 0, which wait for rank 0 as long as rank 0 waits for them.
comm::ListenerWait wait_for_rank_0(const WorldOptions& options, int ranks) {
  using Clock = std::chrono::steady_clock;
  const auto warn_at = Clock::now() + std::chrono::duration<double>(options.peer_timeout);
  return {comm::Seconds(options.start_timeout), [&options, ranks, warn_at, warned = false]() mutable {
            if (options.while_waiting) options.while_waiting();
            if (warned || Clock::now() < warn_at) return;
            warned = true;
            note(base::LogLevel::warning, "rank 0 of ", ranks, " has not started this world after ",
                 options.peer_timeout, " s; still waiting");
          }};
}

}  // namespace

WorldRanks::WorldRanks(WorldOptions& options) {
  const comm::JobLaunch launch = find_launch(options);
  if (launch.devices) {
    require(options.devices == 1 || options.devices == *launch.devices, "World: the options ask for ", options.devices,
            " devices, but KAREZ_DEVICES is ", *launch.devices);
    options.devices = *launch.devices;
  }
  if (launch.ranks == 1) return;
  require(options.peer_timeout > 0, "World: peer_timeout is ", options.peer_timeout, " s; it must be above 0");
  require(options.start_timeout > 0, "World: start_timeout is ", options.start_timeout, " s; it must be above 0");
  require(options.call_timeout > 0, "World: call_timeout is ", options.call_timeout, " s; it must be above 0");
  rank_ = launch.rank;
  ranks_ = launch.ranks;
  peer_timeout_ = options.peer_timeout;
  oversubscribed_ = launch.crowded.value_or(false);
  const int world = next_world(launch);
  connections_ = std::make_unique<Connections>(launch, world, options.ranks.value_or(Ranks{}), options.peer_timeout,
                                               wait_for_rank_0(options, ranks_));
  if (rank_ == 0) await_ranks(options);
  if (rank_ > 0 || world > 0 || launch.launcher == comm::Launcher::none) return;
  std::set<std::string_view> links;
  for (int rank = 1; rank < ranks_; ++rank) links.insert(comm::name_of(connections_->peers.link_class(rank)));
  std::fprintf(stderr, "%s\n", comm::startup_line(launch, options.devices, base::join(links, "+")).c_str());
}

WorldRanks::~WorldRanks() { end(std::uncaught_exceptions() == 0); }

// All ranks wait for each other, because closing a connection would lose data in transit.
void WorldRanks::end(bool graceful) {
  if (connections_ == nullptr) return;
  comm::StoreClient& store = connections_->rendezvous.store();
  try {
    const auto lost = connections_->peers.lost();
    if (!graceful) store.disconnect();
    else if (lost) store.barrier(cat("goodbye without ", *lost), ranks_ - 1, comm::Seconds(0.5));
    // Returns after all ranks have called end, or after a failure.
    else store.barrier("goodbye", ranks_, comm::Seconds(peer_timeout_ + 2));
  } catch (const std::exception&) {}  // a rank has left without waiting, so there is no rank to wait for
  connections_.reset();
}

comm::Peers* WorldRanks::peers() const { return connections_ == nullptr ? nullptr : &connections_->peers; }

// Runs on rank 0: reads the settings of all ranks and decides. All ranks have joined the store, so each is expected to
// send its settings soon.
std::string WorldRanks::decide_settings(std::string costs, std::string link) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  std::vector<RankInfo> rank_infos;
  // One second is added, because there are no heartbeats yet that would distinguish a busy machine from a dead one.
  const double timeout_seconds = peer_timeout_ + 1;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (int rank = 0; rank < ranks_; ++rank) {
    std::optional<std::string> info;
    for (Backoff backoff; !(info = store.get(rank_info_key(rank))); backoff.wait()) {
      store.check();
      if (std::chrono::steady_clock::now() > deadline)
        return cat("!", connections_->peers.name(rank),
                   " has stopped: it joined the rendezvous, but has sent nothing for ", timeout_seconds, " s");
    }
    rank_infos.push_back(RankInfo::parse(*info));
  }
  return decide(rank_infos, std::move(costs), std::move(link));
}

// Waits until rank 0 has set the key. Throws if the store does not answer within the timeout, because rank 0 has then
// stopped.
std::string WorldRanks::await_key(const std::string& key, const std::function<void()>& meanwhile) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  std::optional<std::string> value;
  for (Backoff backoff; !(value = store.get(key, comm::Seconds(peer_timeout_ + 1))); backoff.wait()) {
    store.check();
    if (meanwhile) meanwhile();
  }
  return *value;
}

CommonSettings WorldRanks::agree(const WorldOptions& options, const CostTable& costs,
                                 const std::string& versions) const {
  const device::CpuBudget budget = device::cpu_budget();
  if (alone()) return {budget.cores, options.memory, {}, costs.print()};
  comm::StoreClient& store = connections_->rendezvous.store();
  const RankInfo rank_info{options_to_match(options, versions),
                           cat(comm::this_host(), " cpus ", base::join(budget.cpus, " ")), connections_->peers.host(),
                           oversubscribed_ ? 1 : budget.cores, options.memory};
  store.set(rank_info_key(rank_), rank_info.print());
  if (rank_ == 0) {
    const auto forced = connections_->peers.forced();
    store.set("agreed", decide_settings(costs.print(), forced ? std::string(comm::name_of(*forced)) : std::string()));
  }
  const std::string message = await_key("agreed", options.while_waiting);
  if (message.empty() || message[0] != '+') await_readers("refused");
  const char decision = message.empty() ? '-' : message[0];
  const ErrorKind kind = decision == '!' ? ErrorKind::hang : decision == '?' ? ErrorKind::peer : ErrorKind::user;
  require(kind, decision == '+', message.empty() ? "rank 0 sent no settings" : message.substr(1));
  return CommonSettings::parse(std::string_view(message).substr(1));
}

namespace {

constexpr std::size_t max_text = (1 << 20) - 1;  // the maximum length of a text in the store

// Returns the first pair of lines in which the texts of two ranks differ; nullopt if the texts are equal.
std::optional<std::string> first_differing_lines(int low, const std::string& low_text, int high,
                                                 const std::string& high_text) {
  std::istringstream first(low_text), second(high_text);
  std::string a, b;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(first, a)), more_b = static_cast<bool>(std::getline(second, b));
    if (!more_a && !more_b) return std::nullopt;
    if (!more_a) a = "(nothing more)";
    if (!more_b) b = "(nothing more)";
    if (a != b) return cat("rank ", low, ": ", a, "\nrank ", high, ": ", b);
  }
}

// Parses a text in which the lines about rank 1 follow a line ">1", and so on.
std::map<int, std::string> links_by_rank(const std::string& text) {
  std::map<int, std::string> out;
  std::istringstream in(text);
  std::string* lines = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] == '>') lines = &out[std::atoi(line.c_str() + 1)];
    else if (lines != nullptr) *lines += line + "\n";
  }
  return out;
}

std::string first_link_mismatch(std::vector<std::map<int, std::string>>& links) {
  const int ranks = static_cast<int>(links.size());
  for (int low = 0; low < ranks; ++low)
    for (int high = low + 1; high < ranks; ++high) {
      std::string &low_text = links[static_cast<std::size_t>(low)][high],
                  &high_text = links[static_cast<std::size_t>(high)][low];
      if (const auto difference = first_differing_lines(low, low_text, high, high_text)) return *difference;
    }
  return "the compared parts of the link descriptions are equal";
}

}  // namespace

std::string WorldRanks::first_difference(std::uint64_t op, std::pair<int, int> differing_ranks,
                                         const std::string& text) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  auto key = [&](int rank) { return cat(key_of("text", op), "/", rank); };
  const auto [first, second] = differing_ranks;
  if (rank_ == first || rank_ == second) store.set(key(rank_), text.substr(0, max_text));
  const auto difference = first_differing_lines(first, store.wait(key(first)), second, store.wait(key(second)));
  await_readers(key_of("text", op));
  return difference.value_or("their texts are equal; their kernels, options or versions differ");
}

std::vector<std::string> WorldRanks::all_texts(std::uint64_t op, const std::string& text) const {
  if (connections_ == nullptr) return {text};
  require(text.size() <= max_text, "a text of ", text.size(), " bytes is too long to be exchanged between ranks");
  comm::StoreClient& store = connections_->rendezvous.store();
  const std::string prefix = key_of("texts", op);
  const auto key = [&](int rank) { return cat(prefix, "/", rank); };
  store.set(key(rank_), text);
  std::vector<std::string> out;
  for (int rank = 0; rank < ranks_; ++rank) out.push_back(store.wait(key(rank)));
  await_readers(prefix);
  return out;
}

void WorldRanks::publish_outcome(const std::string& operation, const std::optional<Error>& failure) const {
  if (connections_ == nullptr) return;
  const std::string text = failure ? cat(static_cast<int>(failure->kind), " rank 0: ", failure->what()) : "";
  connections_->rendezvous.store().set(cat("outcome/", operation), text.substr(0, max_text));
}

std::optional<Error> WorldRanks::read_outcome(const std::string& operation) const {
  const std::string text = connections_->rendezvous.store().wait(cat("outcome/", operation));
  if (text.empty()) return std::nullopt;
  const std::size_t space = text.find(' ');
  return Error(static_cast<ErrorKind>(std::atoi(text.c_str())), text.substr(space + 1));
}

std::string WorldRanks::link_mismatch(std::uint64_t op, const std::map<int, std::string>& lines_by_rank) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  auto key = [&](int rank) { return cat(key_of("links", op), "/", rank); };
  std::string text;
  for (const auto& [rank, lines] : lines_by_rank) text += cat(">", rank, "\n", lines);
  store.set(key(rank_), text.substr(0, max_text));
  if (rank_ == 0) {
    std::vector<std::map<int, std::string>> links;
    for (int rank = 0; rank < ranks_; ++rank) links.push_back(links_by_rank(store.wait(key(rank))));
    store.set(key_of("links", op), first_link_mismatch(links));
  }
  const std::string decision = store.wait(key_of("links", op));
  await_readers(key_of("links", op));
  return decision;
}

std::string WorldRanks::key_of(std::string_view what, std::uint64_t op) const {
  return cat(what, "/", generation_, "/", op);
}

void WorldRanks::rejoin(double seconds, const std::function<void()>& leave) {
  const auto lost = connections_->peers.lost();
  require(ErrorKind::peer, !lost, "reset: ", lost ? connections_->peers.name(*lost) : "",
          " cannot continue; restart the job");
  const std::string prefix = cat("reset/", generation_, "/");
  if (!has_left_) {
    reset_barrier(cat(prefix, "begin"), seconds);
    has_left_ = true;
    leave();
    connections_->peers.reset_connections();
  }
  reset_barrier(cat(prefix, "left"), seconds);
  has_left_ = false;
  ++generation_;
}

void WorldRanks::reset_barrier(const std::string& name, double seconds) const {
  std::vector<int> missing;
  try {
    missing = missing_ranks(name, seconds);
  } catch (const Error& error) { throw Error(ErrorKind::peer, cat("reset: ", error.what(), "; restart the job")); }
  if (!missing.empty())
    fail(ErrorKind::peer, "reset: ", join(missing, " and ", [&](int rank) { return connections_->peers.name(rank); }),
         " ", missing.size() == 1 ? "has" : "have", " not called reset within ", seconds,
         " s; after a failure either all ranks or no rank must reset the world");
}

std::vector<int> WorldRanks::missing_ranks(const std::string& barrier, double seconds) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  store.set(cat(barrier, "/", rank_), "reached");
  std::vector<int> out;
  for (int rank = 0; rank < ranks_; ++rank) {
    while (!store.get(cat(barrier, "/", rank))) {
      store.check();
      if (std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      out.push_back(rank);
      break;
    }
  }
  return out;
}

// Waits until all ranks have read a text, because rank 0 must keep the store running until then.
void WorldRanks::await_readers(const std::string& text) const {
  try {
    missing_ranks(cat(text, "/read"), 1);
  } catch (const Error&) {}  // a rank has left and will not read the text
}

}  // namespace karez
