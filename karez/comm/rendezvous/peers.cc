// Peers: finds the other processes through the store, and connects to them over shared memory on one host, over TCP
// between hosts, or over the link class that is forced.
#include "karez/comm/rendezvous/peers.h"

#include <array>
#include <cstdlib>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/transport/shared_wire.h"
#include "karez/comm/transport/socket_wire.h"
#include "karez/comm/transport/ucx_wire.h"

namespace karez::comm {
namespace {
// The number that a dialling rank sends consists of its rank, the generation of the connection, and the lane.
constexpr std::uint32_t control_bit = 1u << 31;
constexpr int generation_shift = 24;
constexpr std::uint32_t generation_count = 1u << 7;

std::string purpose_of(int rank) { return cat("rank ", rank); }
std::string key_of(int rank) { return cat("peer/", rank); }

// Returns a name that cannot be guessed and that reveals nothing about the world.
Address random_socket_name() {
  std::string hex = print(random_token());
  return {cat("@karez-", std::string_view(hex).substr(0, 32)), 0};
}
}  // namespace

std::string_view name_of(LinkClass link) {
  switch (link) {
    case LinkClass::shm: return "shm";
    case LinkClass::tcp: return "tcp";
    case LinkClass::ucx: return "ucx";
  }
  return "?";
}

std::optional<LinkClass> link_class_from(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (LinkClass link : {LinkClass::shm, LinkClass::tcp, LinkClass::ucx})
    if (name == name_of(link)) return link;
  fail("unknown link '", name, "'; expected one of: shm, tcp, ucx");
}

Peers::Peers(Reactor& reactor, StoreClient& store, const Token& token, PeersOptions options)
    : reactor_(reactor),
      store_(store),
      token_(token),
      options_(std::move(options)),
      entries_(static_cast<std::size_t>(options_.ranks)) {
  require(options_.rank >= 0 && options_.rank < options_.ranks, "rank must be from 0 to ", options_.ranks - 1, ", got ",
          options_.rank);
  require(options_.ranks <= 1 << generation_shift, "a world can have at most ", 1 << generation_shift, " ranks, got ",
          options_.ranks);
  if (options_.host.empty()) options_.host = this_host();
  if (const char* name = std::getenv("KAREZ_LINK"); name != nullptr && !options_.force)
    options_.force = link_class_from(name);
  if (options_.force == LinkClass::ucx) require_ucx();
  auto make_acceptor = [&](Address address, LinkClass link) {
    return std::make_unique<Acceptor>(
        reactor_, std::move(address), token_, purpose_of(options_.rank),
        [this, link](Descriptor socket, std::uint32_t number) { accept_peer(std::move(socket), number, link); },
        AcceptorLimits::for_ranks(options_.ranks));
  };
  tcp_ = make_acceptor({address_of(options_.interface), 0}, LinkClass::tcp);
  local_ = make_acceptor(random_socket_name(), LinkClass::shm);
  store_.set(key_of(options_.rank), cat(this_process(), "\n", options_.host, "\n", print(tcp_->address()), "\n",
                                        print(local_->address()), "\n", this_process_in_proc()));
}

Peers::~Peers() = default;

const Peers::Peer& Peers::peer(int rank) {
  require(rank >= 0 && rank < ranks() && rank != this->rank(), "rank ", rank, " is not a peer of rank ", this->rank(),
          " of ", ranks());
  auto& entry = entries_[static_cast<std::size_t>(rank)];
  if (entry.peer) return *entry.peer;
  std::string text = store_.wait(key_of(rank));
  std::array<std::string, 5> lines;
  std::size_t begin = 0;
  for (std::string& line : lines) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    line = text.substr(std::min(begin, text.size()), end - std::min(begin, text.size()));
    begin = end + 1;
  }
  std::lock_guard lock(mutex_);
  entry.peer = Peer{lines[0], lines[1], lines[2], lines[3], lines[4]};
  return *entry.peer;
}

bool Peers::has_joined(int rank) {
  if (!store_.get(key_of(rank))) return false;
  std::lock_guard lock(connecting_);
  peer(rank);
  return true;
}

LinkClass Peers::link_class(int rank) {
  std::lock_guard lock(connecting_);
  return link_class_locked(rank);
}

LinkClass Peers::link_class_locked(int rank) {
  bool same_host = peer(rank).host == options_.host;
  LinkClass link = options_.force.value_or(same_host ? LinkClass::shm : LinkClass::tcp);
  require(link != LinkClass::shm || same_host, "links are forced to shm, but rank ", rank, " (", peer(rank).name,
          ") is on a different host (", peer(rank).host, ") from rank ", this->rank(), " (", options_.host, ")");
  return link;
}

Connection& Peers::connect(int rank) { return connect(rank, data_lane); }
Connection& Peers::control(int rank) { return connect(rank, control_lane); }

Connection& Peers::connect(int rank, Lane lane) {
  std::lock_guard lock(connecting_);
  const std::string& peer_name = peer(rank).name;
  LaneState& lane_state = entries_[static_cast<std::size_t>(rank)].lanes[lane];
  if (lane_state.connection == nullptr) {
    link_class_locked(rank);
    auto wire = rank < this->rank() ? dial_peer(rank, lane) : await_peer(rank, lane);
    auto connection = std::make_unique<Connection>(reactor_, std::move(wire), cat("rank ", rank, " (", peer_name, ")"));
    std::lock_guard peers_lock(mutex_);
    lane_state.connection = std::move(connection);
  }
  return *lane_state.connection;
}

void Peers::reset_connections() {
  std::lock_guard connecting_lock(connecting_);
  std::vector<LaneState> old;  // destroyed after mutex_ is released
  std::lock_guard lock(mutex_);
  generation_ = (generation_ + 1) % generation_count;
  cancel_reason_.clear();
  lost_.reset();
  for (Entry& entry : entries_)
    for (LaneState& lane_state : entry.lanes) old.push_back(std::exchange(lane_state, LaneState()));
}

void Peers::cancel_waits(const std::string& reason, std::optional<int> lost) {
  std::lock_guard lock(mutex_);
  cancel_reason_ = reason;
  lost_ = lost;
  incoming_changed_.notify_all();
}

std::optional<int> Peers::awaited() const {
  const int rank = awaited_;
  return rank < 0 ? std::nullopt : std::optional(rank);
}

std::optional<int> Peers::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

std::int64_t Peers::bytes_received() const {
  std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const Entry& entry : entries_)
    if (const auto& connection = entry.lanes[data_lane].connection) sum += connection->bytes_received();
  return sum;
}

bool Peers::is_stopped(int rank) const {
  std::string process;
  {
    std::lock_guard lock(mutex_);
    const auto& entry = entries_[static_cast<std::size_t>(rank)];
    if (!entry.peer) return false;
    process = entry.peer->process;
  }
  return comm::is_stopped(process);
}

std::string Peers::name(int rank) const {
  std::lock_guard lock(mutex_);
  const auto& peer = entries_[static_cast<std::size_t>(rank)].peer;
  return rank == this->rank() ? cat("rank ", rank, " (", this_process(), ")")
         : peer               ? cat("rank ", rank, " (", peer->name, ")")
                              : cat("rank ", rank);
}

std::unique_ptr<Wire> Peers::dial_peer(int rank, Lane lane) {
  const Peer& remote = peer(rank);
  LinkClass link = link_class_locked(rank);
  try {
    const bool same_host = link == LinkClass::shm || (link == LinkClass::ucx && remote.host == options_.host);
    Address address = parse_address(same_host ? remote.local : remote.tcp);
    const std::uint32_t number = static_cast<std::uint32_t>(this->rank()) | generation_ << generation_shift |
                                 (lane == control_lane ? control_bit : 0);
    Descriptor socket =
        dial_and_authenticate(purpose_of(rank), address, token_, purpose_of(rank), number, options_.timeout);
    set_tcp_options(socket.get(), options_.peer_timeout);
    if (link == LinkClass::ucx && lane == data_lane) return make_ucx_wire(std::move(socket), same_host);
    if (link == LinkClass::shm && lane == data_lane) return SharedWire::attach(std::move(socket), options_.timeout);
    return std::make_unique<SocketWire>(std::move(socket));
  } catch (const Error& error) {
    store_.check();  // if a rank has exited, that error is more specific
    fail(ErrorKind::peer, "no connection to rank ", rank, " (", remote.name, "): ", error.what());
  }
}

std::unique_ptr<Wire> Peers::await_peer(int rank, Lane lane) {
  struct AwaitedReset {
    std::atomic<int>& rank;
    ~AwaitedReset() { rank = -1; }
  } awaited_reset{awaited_};
  awaited_ = rank;
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_.timeout);
  const std::string& name = peer(rank).name;
  LaneState& lane_state = entries_[static_cast<std::size_t>(rank)].lanes[lane];
  while (true) {
    {
      std::unique_lock lock(mutex_);
      incoming_changed_.wait_for(lock, std::chrono::milliseconds(100),
                                 [&] { return lane_state.incoming != nullptr || !cancel_reason_.empty(); });
      require(ErrorKind::peer, cancel_reason_.empty(), "rank ", rank, " (", name,
              ") is no longer awaited: ", cancel_reason_);
      if (lane_state.incoming != nullptr) return std::move(lane_state.incoming);
    }
    store_.check();
    require(ErrorKind::peer, std::chrono::steady_clock::now() < deadline, "no connection from rank ", rank, " (", name,
            ") within ", options_.timeout.count(), " s");
  }
}

// Runs on the reactor's thread; it makes no requests to the store.
void Peers::accept_peer(Descriptor socket, std::uint32_t number, LinkClass listener) {
  const Lane lane = (number & control_bit) != 0 ? control_lane : data_lane;
  const std::uint32_t generation = number >> generation_shift & (generation_count - 1);
  const std::uint32_t peer_rank = number & ((1u << generation_shift) - 1);
  const bool may_dial =
      peer_rank > static_cast<std::uint32_t>(rank()) && peer_rank < static_cast<std::uint32_t>(ranks());
  require(ErrorKind::peer, may_dial, "rank ", peer_rank, " dials rank ", rank(), " of ", ranks(),
          "; only a higher rank may dial");
  set_tcp_options(socket.get(), options_.peer_timeout);
  std::unique_ptr<Wire> wire;
  if (options_.force == LinkClass::ucx && lane == data_lane)
    wire = make_ucx_wire(std::move(socket), listener == LinkClass::shm);
  else if (listener == LinkClass::shm && lane == data_lane) wire = SharedWire::create(std::move(socket));
  else wire = std::make_unique<SocketWire>(std::move(socket));
  std::lock_guard lock(mutex_);
  require(ErrorKind::peer, generation == generation_, "rank ", peer_rank, " dials for connections that were reset");
  LaneState& lane_state = entries_[peer_rank].lanes[lane];
  require(ErrorKind::peer, lane_state.incoming == nullptr && !lane_state.dialled, "rank ", peer_rank,
          " dials a second time");
  lane_state.dialled = true;
  lane_state.incoming = std::move(wire);
  incoming_changed_.notify_all();
}

}  // namespace karez::comm
