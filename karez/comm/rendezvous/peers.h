// Peers: the other processes of a world, their addresses, and the connections to them, made when first needed.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/acceptor.h"
#include "karez/comm/rendezvous/store_server.h"
#include "karez/comm/transport/connection.h"

namespace karez::comm {

enum class LinkClass { shm, tcp, ucx };  // ucx is used only if forced
std::string_view name_of(LinkClass link);
// Returns nullopt for "": locality then decides. Throws if the name is unknown.
std::optional<LinkClass> link_class_from(std::string_view name);

struct PeersOptions {
  int rank = 0, ranks = 1;
  std::string interface = {};           // through which other processes reach this one; "" means loopback
  std::optional<LinkClass> force = {};  // if not set, KAREZ_LINK decides; without this variable, locality decides
  std::string host = {};                // "" means this_host()
  Seconds timeout{30};                  // maximum time until a peer has joined, and then until it is connected
  Seconds peer_timeout{30};             // maximum time without an acknowledgement from the peer's kernel
};

class Peers {
 public:
  // Publishes the addresses of this process in the store. All ranks of the world must construct their Peers.
  Peers(Reactor& reactor, StoreClient& store, const Token& token, PeersOptions options);
  ~Peers();  // call after all links are closed
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }

  const std::string& host() const { return options_.host; }           // of this rank
  std::optional<LinkClass> forced() const { return options_.force; }  // overrides locality

  // Returns the connection to another rank; the first call makes it. The other rank must also request it, earlier or
  // later: the higher rank dials and the lower rank waits, so ranks cannot wait in a cycle. Throws Error (kind peer)
  // with the peer's name if the peer does not connect in time, or if any rank of the world has exited.
  Connection& connect(int rank);
  // Returns a second connection, made in the same way, whose messages do not wait for data. It is always a socket, so
  // that the kernel sends acknowledgements even if the process does not respond.
  Connection& control(int rank);
  bool has_joined(int rank);       // true if the rank has published its addresses; queries the store
  LinkClass link_class(int rank);  // of the data connection; may query the store
  // Discards all connections, whose links must be closed, and any cancellation; the next `connect` makes a new
  // connection. All ranks must call this function, and no rank may request a connection before all have called it. Late
  // dials for old connections are rejected.
  void reset_connections();

  // These can be called from any thread.
  // Ends all current and later waits of this process for other ranks; `lost` is the rank that cannot continue.
  void cancel_waits(const std::string& reason, std::optional<int> lost = {});
  std::optional<int> lost() const;
  std::optional<int> awaited() const;   // the rank for whose connection a thread waits now
  std::int64_t bytes_received() const;  // on data connections
  std::string name(int rank) const;     // "rank 1 (alpha, process 4711)", or "rank 1" if its name is not known yet
  bool is_stopped(int rank) const;      // true if a signal has stopped the rank and /proc shows it (host.h)

 private:
  struct Peer {  // as published
    std::string name, host, tcp, local, process;
  };
  enum Lane { data_lane, control_lane, lane_count };
  struct LaneState {
    std::unique_ptr<Wire> incoming;  // dialled by the peer and not yet requested by this rank
    bool dialled = false;
    std::unique_ptr<Connection> connection;
  };
  struct Entry {
    std::optional<Peer> peer;
    std::array<LaneState, lane_count> lanes;
  };

  const Peer& peer(int rank);
  LinkClass link_class_locked(int rank);
  Connection& connect(int rank, Lane lane);
  void accept_peer(Descriptor socket, std::uint32_t number, LinkClass link);
  std::unique_ptr<Wire> dial_peer(int rank, Lane lane);
  std::unique_ptr<Wire> await_peer(int rank, Lane lane);

  Reactor& reactor_;
  StoreClient& store_;
  Token token_;
  PeersOptions options_;
  std::mutex connecting_;  // one thread at a time connects
  // Guards the data that the reactor's thread writes, the cancellation, and the peers when other threads read them.
  mutable std::mutex mutex_;
  std::condition_variable incoming_changed_;
  std::string cancel_reason_;  // empty if waits are not cancelled
  std::optional<int> lost_;
  std::uint32_t generation_ = 0;  // number of the connections; each reset increments it
  std::atomic<int> awaited_{-1};
  std::vector<Entry> entries_;  // by rank
  std::unique_ptr<Acceptor> tcp_, local_;
};

}  // namespace karez::comm
