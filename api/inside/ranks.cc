// The process' place among the ranks, and how worlds agree through the store.
#include "api/inside/ranks.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "api/inside/rooms.h"
#include "base/text.h"
#include "comm/host.h"
#include "device/cpu_budget.h"

namespace karez {
namespace {

constexpr Seconds patience{24 * 3600.0};  // for ranks that compute long between two meetings; that one has gone is told at once

PeersOptions peers_options(const Ranks& where) {
  return {.rank = where.rank,
          .ranks = where.ranks,
          .interface = where.interface,
          .force = link_class_from(where.link),
          .host = where.host,
          .timeout = Seconds(where.peer_timeout),
          .peer_timeout = Seconds(where.peer_timeout)};
}

std::unique_ptr<StoreServer> served(Reactor& reactor, const Token& token, const Ranks& where) {
  return where.rank == 0 ? std::make_unique<StoreServer>(reactor, token, parse_address(where.store)) : nullptr;
}

const Ranks& checked(const Ranks& where) {
  require(where.ranks >= 1 && where.rank >= 0 && where.rank < where.ranks, "a world's rank ", where.rank, " of ", where.ranks);
  require(!where.store.empty(), "rank ", where.rank, " of ", where.ranks, " is not told where the ranks meet; Ranks::store is an address like "
          "127.0.0.1:4711");
  require(where.peer_timeout > 0, "ranks that wait ", where.peer_timeout, " s for each other");
  return where;
}

std::string bye_of(int rank) { return cat("bye/", rank); }

}  // namespace

RankedProcess::RankedProcess(const Ranks& where)
    : token(parse_token(checked(where).token)),
      server(served(reactor, token, where)),
      store(parse_address(where.store), token, where.rank, this_process(), Seconds(where.peer_timeout), patience),
      peers(reactor, store, token, peers_options(where)),
      where_(where) {}

// A process that ends because something was thrown waits for nobody: the others are to hear of it.
RankedProcess::~RankedProcess() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    store.set(bye_of(where_.rank), "");
    for (int rank = 1; where_.rank == 0 && rank < where_.ranks; ++rank) store.wait(bye_of(rank));
  } catch (const std::exception&) {}  // somebody has gone otherwise: nothing is left to wait for
}

std::string Agreed::print() const { return cat(cores, " ", memory, "\n", costs); }

Agreed Agreed::parse(std::string_view text) {
  const std::size_t end = text.find('\n');
  std::istringstream first{std::string(text.substr(0, end))};
  Agreed out;
  first >> out.cores >> out.memory;
  require(ErrorKind::peer, !first.fail() && end != text.npos, "rank 0 says of what all agree on: ", text);
  out.costs = text.substr(end + 1);
  return out;
}

namespace {

// A process' place at one rank, while a world there lives. One process may hold several ranks, each with worlds of its own (tests do).
struct Place {
  std::mutex mutex;  // held while it is taken, which waits for others
  std::weak_ptr<RankedProcess> process;
};

// Which worlds of a process belong together is the process' to know: they have nothing else in common.
Place& place_of(const Ranks& where) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, Place> places;
  std::lock_guard lock(mutex);
  return places[{where.store, where.rank}];
}

std::shared_ptr<RankedProcess> process_at(const Ranks& where) {
  Place& place = place_of(where);
  std::lock_guard lock(place.mutex);
  auto process = place.process.lock();
  if (process == nullptr) place.process = process = std::make_shared<RankedProcess>(where);
  require(process->peers.ranks() == where.ranks, "a world of ", where.ranks, " ranks, where an earlier one of this process has ",
          process->peers.ranks());
  return process;
}

// Whatever must be the same on all ranks; a line each.
std::string must_be_equal(const WorldOptions& options) {
  return cat("devices = ", options.devices, "\nseed = ", options.seed, "\nteam = ", options.team, "\nin_flight = ", options.in_flight, "\n");
}

// What a rank says of itself: what must be equal, then a line of what is agreed on, then the cores it runs on, which ranks of one host may share.
struct Offer {
  std::string equal, machine;
  int cores = 1;
  std::int64_t memory = 0;

  std::string print() const { return cat(cores, " ", memory, "\n", machine, "\n", equal); }
  static Offer parse(const std::string& text) {
    std::istringstream in(text);
    Offer out;
    std::string line;
    std::getline(in, line);
    std::istringstream(line) >> out.cores >> out.memory;
    std::getline(in, out.machine);
    out.equal = text.substr(std::min<std::size_t>(text.size(), static_cast<std::size_t>(std::max<std::streamoff>(in.tellg(), 0))));
    return out;
  }
};

// "" or the first line in which they differ.
std::string first_difference(const std::string& mine, const std::string& theirs) {
  std::istringstream a(mine), b(theirs);
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);)
    if (x != y) return cat("'", x, "' against '", y, "'");
  return mine == theirs ? "" : "more lines";
}

}  // namespace

WorldRanks::WorldRanks(const std::optional<Ranks>& where) {
  if (!where || checked(*where).ranks == 1) return;
  process_ = process_at(*where);
  number_ = process_->worlds++;
}

std::string WorldRanks::key(std::string_view what) const { return cat("world/", number_, "/", what); }

Agreed WorldRanks::agree(const WorldOptions& options, const CostTable& costs) const {
  const CpuBudget budget = cpu_budget();
  if (alone()) return {budget.cores, options.memory, costs.print()};
  StoreClient& store = process_->store;
  const Offer mine{must_be_equal(options), cat(this_host(), " cpus ", join(budget.cpus, " ")), budget.cores, options.memory};
  auto of = [](int rank) { return cat("offer/", rank); };
  store.set(key(of(rank())), mine.print());
  if (rank() == 0) {
    Agreed agreed{budget.cores, options.memory, costs.print()};
    std::vector<Offer> offers;
    std::map<std::string, int> sharing;  // how many run on the same cores
    std::string wrong;
    for (int r = 0; r < ranks(); ++r) {
      offers.push_back(Offer::parse(store.wait(key(of(r)))));
      ++sharing[offers.back().machine];
      if (wrong.empty() && offers.back().equal != mine.equal)
        wrong = cat("the options of rank ", r, "'s World differ from those of rank 0's: ", first_difference(offers.back().equal, mine.equal));
    }
    for (const Offer& offer : offers) {
      agreed.cores = std::min(agreed.cores, std::max(1, offer.cores / sharing[offer.machine]));
      if (offer.memory > 0 && (agreed.memory == 0 || offer.memory < agreed.memory)) agreed.memory = offer.memory;
    }
    store.set(key("agreed"), wrong.empty() ? cat("+", agreed.print()) : cat("-", wrong));
  }
  const std::string said = store.wait(key("agreed"));
  require(!said.empty() && said[0] == '+', said.empty() ? said : said.substr(1));
  return Agreed::parse(std::string_view(said).substr(1));
}

void WorldRanks::barrier() const {
  if (!alone()) process_->store.barrier(key("barrier"), ranks());
}

}  // namespace karez
