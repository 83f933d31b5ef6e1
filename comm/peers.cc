// Finds peers through the store and connects to them, by shared memory on one host and by TCP between hosts.
#include "comm/peers.h"

#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "comm/host.h"
#include "comm/shared_wire.h"
#include "comm/socket_wire.h"

namespace karez::comm {
namespace {
std::string purpose_of(int rank) { return cat("rank ", rank); }
std::string key_of(int rank) { return cat("peer/", rank); }

// Nobody can guess it, and it says nothing about the world.
Address hidden_name() {
  std::string hex = print(random_token());
  return {cat("@karez-", std::string_view(hex).substr(0, 32)), 0};
}
}  // namespace

std::string_view name_of(LinkClass link) { return link == LinkClass::shm ? "shm" : "tcp"; }

std::optional<LinkClass> link_class_from(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (LinkClass link : {LinkClass::shm, LinkClass::tcp})
    if (name == name_of(link)) return link;
  fail("no link is called '", name, "'; there are shm, tcp");
}

Peers::Peers(Reactor& reactor, StoreClient& store, const Token& token, PeersOptions options)
    : reactor_(reactor),
      store_(store),
      token_(token),
      options_(std::move(options)),
      entries_(static_cast<std::size_t>(options_.ranks)) {
  require(options_.rank >= 0 && options_.rank < options_.ranks, "rank ", options_.rank, " of ", options_.ranks);
  if (options_.host.empty()) options_.host = this_host();
  if (const char* given = std::getenv("KAREZ_LINK"); given != nullptr && !options_.force) options_.force = link_class_from(given);
  auto door = [&](Address address, LinkClass link) {
    return std::make_unique<Acceptor>(reactor_, std::move(address), token_, purpose_of(options_.rank),
                                      [this, link](Descriptor socket, std::uint32_t who) { let_in(std::move(socket), who, link); });
  };
  tcp_ = door({address_of(options_.interface), 0}, LinkClass::tcp);
  local_ = door(hidden_name(), LinkClass::shm);
  store_.set(key_of(options_.rank), cat(this_process(), "\n", options_.host, "\n", print(tcp_->address()), "\n", print(local_->address())));
}

Peers::~Peers() = default;

const Peers::Peer& Peers::peer(int rank) {
  require(rank >= 0 && rank < ranks() && rank != this->rank(), "rank ", rank, " is no peer of rank ", this->rank(), " of ", ranks());
  auto& entry = entries_[static_cast<std::size_t>(rank)];
  if (entry.peer) return *entry.peer;
  std::string text = store_.wait(key_of(rank));
  std::array<std::string, 4> lines;
  std::size_t begin = 0;
  for (std::string& line : lines) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    line = text.substr(std::min(begin, text.size()), end - std::min(begin, text.size()));
    begin = end + 1;
  }
  entry.peer = Peer{lines[0], lines[1], lines[2], lines[3]};
  return *entry.peer;
}

LinkClass Peers::link_class(int rank) {
  std::lock_guard lock(connecting_);
  return link_class_locked(rank);
}

LinkClass Peers::link_class_locked(int rank) {
  bool near = peer(rank).host == options_.host;
  LinkClass link = options_.force.value_or(near ? LinkClass::shm : LinkClass::tcp);
  require(link == LinkClass::tcp || near, "links are to be shm, but rank ", rank, " (", peer(rank).name, ") is on another host (", peer(rank).host,
          ") than rank ", this->rank(), " (", options_.host, ")");
  return link;
}

Connection& Peers::connect(int rank) {
  std::lock_guard lock(connecting_);
  const Peer& other = peer(rank);
  auto& entry = entries_[static_cast<std::size_t>(rank)];
  if (entry.connection == nullptr) {
    link_class_locked(rank);
    auto wire = rank < this->rank() ? dial_peer(rank) : await_peer(rank);
    entry.connection = std::make_unique<Connection>(reactor_, std::move(wire), cat("rank ", rank, " (", other.name, ")"));
  }
  return *entry.connection;
}

void Peers::give_up(const std::string& why) {
  std::lock_guard lock(mutex_);
  given_up_ = why;
  came_.notify_all();
}

std::unique_ptr<Wire> Peers::dial_peer(int rank) {
  const Peer& other = peer(rank);
  LinkClass link = link_class_locked(rank);
  try {
    Address address = parse_address(link == LinkClass::shm ? other.local : other.tcp);
    Descriptor socket = dial(address, options_.timeout);
    make_quick(socket.get(), options_.peer_timeout);
    ask(socket.get(), token_, purpose_of(rank), static_cast<std::uint32_t>(this->rank()), options_.timeout);
    if (link == LinkClass::shm) return SharedWire::attach(std::move(socket), options_.timeout);
    return std::make_unique<SocketWire>(std::move(socket));
  } catch (const Error& error) {
    store_.check();  // if somebody has gone, that says more
    fail(ErrorKind::peer, "no connection to rank ", rank, " (", other.name, "): ", error.what());
  }
}

std::unique_ptr<Wire> Peers::await_peer(int rank) {
  auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_.timeout);
  auto& entry = entries_[static_cast<std::size_t>(rank)];
  while (true) {
    {
      std::unique_lock lock(mutex_);
      came_.wait_for(lock, std::chrono::milliseconds(100), [&] { return entry.came != nullptr || !given_up_.empty(); });
      require(ErrorKind::peer, given_up_.empty(), "rank ", rank, " (", peer(rank).name, ") is not waited for any more: ", given_up_);
      if (entry.came != nullptr) return std::move(entry.came);
    }
    store_.check();
    require(ErrorKind::peer, std::chrono::steady_clock::now() < until, "no connection from rank ", rank, " (", peer(rank).name, ") within ",
            options_.timeout.count(), " s");
  }
}

// On the reactor's thread: it asks the store nothing.
void Peers::let_in(Descriptor socket, std::uint32_t who, LinkClass link) {
  bool known = who > static_cast<std::uint32_t>(rank()) && who < static_cast<std::uint32_t>(ranks());
  require(ErrorKind::peer, known, "rank ", who, " dials rank ", rank(), " of ", ranks(), "; the higher one dials");
  make_quick(socket.get(), options_.peer_timeout);
  std::unique_ptr<Wire> wire;
  if (link == LinkClass::shm) wire = SharedWire::create(std::move(socket));
  else wire = std::make_unique<SocketWire>(std::move(socket));
  std::lock_guard lock(mutex_);
  auto& entry = entries_[who];
  require(ErrorKind::peer, entry.came == nullptr && !entry.dialled, "rank ", who, " dials a second time");
  entry.dialled = true;
  entry.came = std::move(wire);
  came_.notify_all();
}

}  // namespace karez::comm
