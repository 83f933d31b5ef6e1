// Joins the other ranks, and agrees with them through the store.
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

#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/comm/host.h"
#include "karez/comm/peers.h"
#include "karez/comm/reactor.h"
#include "karez/comm/rendezvous.h"
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

  // Long, for ranks that compute for a long time between two store operations; a rank that exits is reported
  // immediately.
  static constexpr comm::Seconds store_timeout{24 * 3600.0};
  comm::Reactor reactor;
  comm::Rendezvous rendezvous;
  comm::Peers peers;
};

namespace {

// The options in the form of a launcher's settings.
comm::JobLaunch launch_of(const Ranks& where) {
  require(where.ranks >= 1 && where.rank >= 0 && where.rank < where.ranks, "a world has no rank ", where.rank, " of ",
          where.ranks);
  require(where.ranks == 1 || !where.store.empty(), "rank ", where.rank, " of ", where.ranks,
          " has no rendezvous address; set Ranks::store, for example to 127.0.0.1:4711");
  comm::JobLaunch out;
  out.rank = where.rank;
  out.ranks = where.ranks;
  if (where.ranks == 1) return out;
  out.store = comm::parse_address(where.store);
  out.one_host = out.store.is_name();
  out.token = comm::parse_token(where.token);
  out.rank_variables = cat("WorldOptions::ranks of rank ", where.rank);
  return out;
}

comm::JobLaunch find_launch(const WorldOptions& options) {
  comm::JobLaunch told = comm::launch_from(comm::process_environment());
  if (!options.ranks) return told;
  const Ranks& requested = *options.ranks;
  require(told.launcher == comm::Launcher::none || (told.rank == requested.rank && told.ranks == requested.ranks),
          "World: its options say rank ", requested.rank, " of ", requested.ranks, ", but ",
          comm::name_of(told.launcher), " started this process as rank ", told.rank, " of ", told.ranks, " (",
          told.rank_variables, ")");
  return launch_of(requested);
}

// The number of worlds that this process has made with a store before: the n-th joins the n-th of the others, which
// have no other common identifier. One process may hold several ranks (tests do).
int next_world(const comm::JobLaunch& launch) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, int> made;
  std::lock_guard lock(mutex);
  return made[{comm::print(launch.store), launch.rank}]++;
}

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

std::string rank_info_key(int rank) { return cat("offer/", rank); }

}  // namespace

std::string CommonSettings::print() const {
  return cat(cores, " ", memory, "\nhosts ", base::join(topology.hosts, " "), "\nlink ", topology.link, "\n", costs);
}

CommonSettings CommonSettings::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string first, hosts, link;
  std::getline(in, first), std::getline(in, hosts), std::getline(in, link);
  CommonSettings out;
  std::istringstream numbers(first);
  numbers >> out.cores >> out.memory;
  require(ErrorKind::peer, !numbers.fail() && hosts.starts_with("hosts ") && link.starts_with("link ") && !in.fail(),
          "rank 0 sent malformed common settings: ", text);
  out.topology.hosts.clear();
  std::istringstream list(hosts.substr(6));
  for (int host = 0; list >> host;) out.topology.hosts.push_back(host);
  out.topology.link = link.substr(5);
  out.costs.assign(std::istreambuf_iterator<char>(in), {});
  return out;
}

namespace {

// "rank 2", "ranks 2, 5 and 7"; of many only the first eight.
std::string text_of_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
    out += cat(i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  return ranks.size() > most ? cat(out, " and ", ranks.size() - most, " more") : out;
}

}  // namespace

// On rank 0: waits for ranks that start slowly. Ranks that do not join in time are named in an error here and on the
// ranks that have joined.
void WorldRanks::await_ranks(const WorldOptions& options) const {
  using Clock = std::chrono::steady_clock;
  comm::StoreClient& store = connections_->rendezvous.store();
  const auto began = Clock::now();
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  bool warned = false;
  std::string twice;
  std::vector<int> missing;
  for (int rank = 1; rank < ranks_; ++rank) missing.push_back(rank);
  for (Backoff backoff;; backoff.wait()) {
    std::erase_if(missing, [&](int rank) { return connections_->peers.has_joined(rank); });
    if (missing.empty()) return;
    store.check();
    if (options.while_waiting) options.while_waiting();
    if (const auto message = store.get(comm::Store::duplicate_rank_key); message && *message != twice) {
      twice = *message;
      note(base::LogLevel::warning, twice);
    }
    if (since() > options.start_timeout) break;
    if (warned || since() < peer_timeout_) continue;
    warned = true;
    note(base::LogLevel::warning, text_of_ranks(missing), " of ", ranks_, missing.size() == 1 ? " has" : " have",
         " not joined this world for ", peer_timeout_, " s; ", missing.size() == 1 ? "it is" : "they are",
         " still awaited");
  }
  const std::string why = cat(text_of_ranks(missing), " of ", ranks_, missing.size() == 1 ? " has" : " have",
                              " not joined this world within the ", options.start_timeout, " s of start_timeout",
                              twice.empty() ? "" : "; ", twice);
  store.set("agreed", "?" + why);
  await_readers("refused");
  fail(ErrorKind::peer, why);
}

namespace {

// On the other ranks: waits as long for rank 0 as that waits for them.
comm::ListenerWait wait_for_rank_0(const WorldOptions& options, int ranks) {
  using Clock = std::chrono::steady_clock;
  const auto warn_at = Clock::now() + std::chrono::duration<double>(options.peer_timeout);
  return {comm::Seconds(options.start_timeout), [&options, ranks, warn_at, warned = false]() mutable {
            if (options.while_waiting) options.while_waiting();
            if (warned || Clock::now() < warn_at) return;
            warned = true;
            note(base::LogLevel::warning, "rank 0 of ", ranks, " has not begun this world for ", options.peer_timeout,
                 " s; it is still awaited");
          }};
}

}  // namespace

WorldRanks::WorldRanks(WorldOptions& options) {
  const comm::JobLaunch launch = find_launch(options);
  if (launch.devices) {
    require(options.devices == 1 || options.devices == *launch.devices, "World: its options say ", options.devices,
            " devices, but KAREZ_DEVICES says ", *launch.devices);
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

// Data in transit on a connection is lost when that is closed, so all ranks wait for each other.
void WorldRanks::end(bool well) {
  if (connections_ == nullptr) return;
  comm::StoreClient& store = connections_->rendezvous.store();
  try {
    const auto lost = connections_->peers.lost();
    if (!well) store.disconnect();
    else if (lost) store.barrier(cat("goodbye without ", *lost), ranks_ - 1, comm::Seconds(0.5));
    // Returns after all ranks have ended, or after a failure.
    else store.barrier("goodbye", ranks_, comm::Seconds(peer_timeout_ + 2));
  } catch (const std::exception&) {}  // a rank has left in another way: there is nothing left to wait for
  connections_.reset();
}

comm::Peers* WorldRanks::peers() const { return connections_ == nullptr ? nullptr : &connections_->peers; }

namespace {

// A rank's settings: lines that must be equal on all ranks; its machine with the CPUs it runs on, which ranks of one
// host may share; its number of cores, and its memory limit.
struct RankInfo {
  std::string equal, machine, host;
  int cores = 1;
  std::int64_t memory = 0;

  std::string print() const { return cat(cores, " ", memory, "\n", machine, "\n", host, "\n", equal); }
  static RankInfo parse(const std::string& text) {
    std::istringstream in(text);
    RankInfo out;
    std::string line;
    std::getline(in, line);
    std::istringstream(line) >> out.cores >> out.memory;
    std::getline(in, out.machine);
    std::getline(in, out.host);
    while (std::getline(in, line)) out.equal += line + "\n";
    return out;
  }
};

// The processor features by which kernels are selected.
std::string cpu_class() {
#if defined(__x86_64__)
  return cat("x86", __builtin_cpu_supports("avx2") ? " avx2" : "", __builtin_cpu_supports("fma") ? " fma" : "",
             __builtin_cpu_supports("avx512f") ? " avx512f" : "",
             __builtin_cpu_supports("avx512bw") ? " avx512bw" : "");
#else
  return "not an x86 processor";
#endif
}

std::string_view name_of(InputCheck check) {
  switch (check) {
    case InputCheck::off: return "off";
    case InputCheck::sampled: return "sampled";
    case InputCheck::full: return "full";
  }
  return "?";
}

std::string options_to_match(const WorldOptions& options, const std::string& versions) {
  return cat(versions, "processor = ", cpu_class(), "\ndevices = ", options.devices, "\nseed = ", options.seed,
             "\nteam = ", options.team, "\nin_flight = ", options.in_flight,
             "\ncheck_inputs = ", name_of(options.check_inputs), "\n");
}

// The first line in which two texts with equally many lines differ.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  for (std::string x, y; std::getline(left, x) && std::getline(right, y);)
    if (x != y) return cat("'", x, "' against '", y, "'");
  return "one text is longer";
}

// Rank 0's decision: '+' and the common settings, or an error after '-' (a difference between programs), '!' (a rank
// has stopped) or '?' (a rank has not joined).
std::string decide(const std::vector<RankInfo>& rank_infos, std::string costs, std::string link) {
  CommonSettings common_settings{rank_infos[0].cores, rank_infos[0].memory, {{}, std::move(link)}, std::move(costs)};
  std::map<std::string, int> hosts;
  for (const RankInfo& info : rank_infos)
    common_settings.topology.hosts.push_back(
        hosts.try_emplace(info.host, static_cast<int>(hosts.size())).first->second);
  std::map<std::string, int> sharing;  // number of ranks on the same cores
  for (const RankInfo& info : rank_infos) ++sharing[info.machine];
  for (std::size_t rank = 0; rank < rank_infos.size(); ++rank) {
    const RankInfo& info = rank_infos[rank];
    if (info.equal != rank_infos[0].equal)
      return cat("-rank ", rank, "'s World differs from rank 0's: ", first_difference(info.equal, rank_infos[0].equal));
    common_settings.cores = std::min(common_settings.cores, std::max(1, info.cores / sharing[info.machine]));
    if (info.memory > 0 && (common_settings.memory == 0 || info.memory < common_settings.memory))
      common_settings.memory = info.memory;
  }
  return cat("+", common_settings.print());
}

}  // namespace

// On rank 0: reads the settings of all ranks and decides. All have joined the store, so each is expected to send its
// settings soon.
std::string WorldRanks::decide_settings(std::string costs, std::string link) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  std::vector<RankInfo> rank_infos;
  const double timeout_seconds =
      peer_timeout_ + 1;  // there are no heartbeats yet that show that a machine is only busy
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (int rank = 0; rank < ranks_; ++rank) {
    std::optional<std::string> info;
    for (Backoff backoff; !(info = store.get(rank_info_key(rank))); backoff.wait()) {
      store.check();
      if (std::chrono::steady_clock::now() > until)
        return cat("!", connections_->peers.name(rank),
                   " has stopped: it joined the rendezvous, but has sent nothing for ", timeout_seconds, " s");
    }
    rank_infos.push_back(RankInfo::parse(*info));
  }
  return decide(rank_infos, std::move(costs), std::move(link));
}

// Waits until rank 0 has set the key. A store that does not answer for this time has stopped, and rank 0 with it.
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
  const RankInfo mine{options_to_match(options, versions),
                      cat(comm::this_host(), " cpus ", base::join(budget.cpus, " ")), connections_->peers.host(),
                      oversubscribed_ ? 1 : budget.cores, options.memory};
  store.set(rank_info_key(rank_), mine.print());
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

constexpr std::size_t max_text = (1 << 20) - 1;  // limit of the store

// The first lines in which two ranks' texts differ.
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

// ">1", then the lines about rank 1, and so on.
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

std::string first_link_mismatch(std::vector<std::map<int, std::string>>& message) {
  const int ranks = static_cast<int>(message.size());
  for (int low = 0; low < ranks; ++low)
    for (int high = low + 1; high < ranks; ++high) {
      std::string &of_low = message[static_cast<std::size_t>(low)][high],
                  &of_high = message[static_cast<std::size_t>(high)][low];
      if (const auto apart = first_differing_lines(low, of_low, high, of_high)) return *apart;
    }
  return "their texts are equal up to the length that was compared";
}

}  // namespace

std::string WorldRanks::first_difference(std::uint64_t op, std::pair<int, int> of, const std::string& mine) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  auto key = [&](int rank) { return cat(key_of("text", op), "/", rank); };
  if (rank_ == of.first || rank_ == of.second) store.set(key(rank_), mine.substr(0, max_text));
  const auto apart = first_differing_lines(of.first, store.wait(key(of.first)), of.second, store.wait(key(of.second)));
  await_readers(key_of("text", op));
  return apart.value_or("their texts are equal; their kernels, options or versions differ");
}

void WorldRanks::publish_outcome(const std::string& what, const std::optional<Error>& failure) const {
  if (connections_ == nullptr) return;
  const std::string text = failure ? cat(static_cast<int>(failure->kind), " rank 0: ", failure->what()) : "";
  connections_->rendezvous.store().set(cat("told/", what), text.substr(0, max_text));
}

std::optional<Error> WorldRanks::read_outcome(const std::string& what) const {
  const std::string text = connections_->rendezvous.store().wait(cat("told/", what));
  if (text.empty()) return std::nullopt;
  const std::size_t space = text.find(' ');
  return Error(static_cast<ErrorKind>(std::atoi(text.c_str())), text.substr(space + 1));
}

std::string WorldRanks::link_mismatch(std::uint64_t op, const std::map<int, std::string>& mine) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  auto key = [&](int rank) { return cat(key_of("links", op), "/", rank); };
  std::string text;
  for (const auto& [rank, lines] : mine) text += cat(">", rank, "\n", lines);
  store.set(key(rank_), text.substr(0, max_text));
  if (rank_ == 0) {
    std::vector<std::map<int, std::string>> message;
    for (int rank = 0; rank < ranks_; ++rank) message.push_back(links_by_rank(store.wait(key(rank))));
    store.set(key_of("links", op), first_link_mismatch(message));
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
  const std::string word = cat("reset/", generation_, "/");
  if (!has_left_) {
    reset_barrier(cat(word, "come"), seconds);
    has_left_ = true;
    leave();
    connections_->peers.reset_connections();
  }
  reset_barrier(cat(word, "left"), seconds);
  has_left_ = false;
  ++generation_;
}

void WorldRanks::reset_barrier(const std::string& word, double seconds) const {
  std::vector<int> absent;
  try {
    absent = missing(word, seconds);
  } catch (const Error& error) { throw Error(ErrorKind::peer, cat("reset: ", error.what(), "; restart the job")); }
  require(ErrorKind::peer, absent.empty(),
          "reset: ", join(absent, " and ", [&](int rank) { return connections_->peers.name(rank); }), " ",
          absent.size() == 1 ? "has" : "have", " not called it within ", seconds,
          " s; after a failure all ranks must reset their world, or none");
}

std::vector<int> WorldRanks::missing(const std::string& word, double seconds) const {
  comm::StoreClient& store = connections_->rendezvous.store();
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  store.set(cat(word, "/", rank_), "here");
  std::vector<int> out;
  for (int rank = 0; rank < ranks_; ++rank) {
    while (!store.get(cat(word, "/", rank))) {
      store.check();
      if (std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      out.push_back(rank);
      break;
    }
  }
  return out;
}

// Rank 0 keeps the store running until the other ranks have read the result.
void WorldRanks::await_readers(const std::string& word) const {
  try {
    missing(cat(word, "/read"), 1);
  } catch (const Error&) {}  // a rank has left and will not read it
}

}  // namespace karez
