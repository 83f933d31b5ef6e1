// The other processes of a world: how each is reached, and the one connection to each, made when first needed.
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

#include "karez/comm/acceptor.h"
#include "karez/comm/connection.h"
#include "karez/comm/namespace.h"
#include "karez/comm/store_server.h"

namespace karez::comm {

enum class LinkClass { shm, tcp, ucx };  // ucx: only where it is asked for
std::string_view name_of(LinkClass link);
std::optional<LinkClass> link_class_from(
    std::string_view name);  // "" is none: locality decides. Throws on another name

struct PeersOptions {
  int rank = 0, ranks = 1;
  std::string interface = {};           // whose address others reach this process at; "": loopback
  std::optional<LinkClass> force = {};  // none: what KAREZ_LINK says, and without that locality
  std::string host = {};                // "": this_host()
  Seconds timeout{30};                  // for a peer to come, and to be reached
  Seconds peer_timeout{30};             // how long a peer's kernel may say nothing
};

class Peers {
 public:
  // Publishes how this process is reached. All of the world do it, in one store.
  Peers(Reactor& reactor, StoreClient& store, const Token& token, PeersOptions options);
  ~Peers();  // no links are left
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }

  const std::string& host() const { return options_.host; }           // of this rank
  std::optional<LinkClass> forced() const { return options_.force; }  // in place of what locality says

  // The connection to another rank, made now if there is none; the other rank asks for it too, sooner or later: the
  // higher one dials, the lower one waits for it, so no circle of ranks can wait. Throws Error (kind peer) with its
  // name if it does not come, or if somebody of the world has gone meanwhile.
  Connection& connect(int rank);
  // Another one, likewise, beside that which carries data: what is said there waits for no data. Always a socket, so
  // that the kernel answers for a process that does not.
  Connection& control(int rank);
  bool has_joined(int rank);       // has published how it is reached; asks the store
  LinkClass link_class(int rank);  // of that connection; may ask the store
  // Forgets all connections, none of which has links any more, and that somebody was given up: the next `connect` makes
  // new ones. All ranks do so, and none asks for a connection before all have. What an old one still says at the door
  // is turned away.
  void reset_connections();
  // Nobody waits for another rank here from now on; `lost`: because that one cannot go on. From any thread.
  void cancel_waits(const std::string& why, std::optional<int> lost = {});
  std::optional<int> lost() const;
  std::optional<int> awaited() const;   // whose connection is waited for now; from any thread
  std::int64_t bytes_received() const;  // bytes that came on the connections for data, ever; from any thread
  std::string name(int rank) const;  // "rank 1 (alpha, process 4711)", or "rank 1" before it is known; from any thread
  bool is_stopped(int rank) const;   // by a signal, as far as it is known and seen from here (host.h); from any thread

 private:
  struct Peer {  // as published
    std::string name, host, tcp, local, process;
  };
  enum Lane { data_lane, control_lane, lane_count };
  struct LaneState {
    std::unique_ptr<Wire> incoming;  // it dialled, and nobody here has asked for it yet
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
  void accept_peer(Descriptor socket, std::uint32_t who, LinkClass link);
  std::unique_ptr<Wire> dial_peer(int rank, Lane lane);
  std::unique_ptr<Wire> await_peer(int rank, Lane lane);

  Reactor& reactor_;
  StoreClient& store_;
  Token token_;
  PeersOptions options_;
  std::mutex connecting_;  // one at a time
  mutable std::mutex
      mutex_;  // of what the reactor's thread brings, of `cancel_reason_` and of peers as others see them
  std::condition_variable incoming_changed_;
  std::string cancel_reason_;  // why
  std::optional<int> lost_;
  std::uint32_t generation_ = 0;  // of connections
  std::atomic<int> awaited_{-1};
  std::vector<Entry> entries_;  // by rank
  std::unique_ptr<Acceptor> tcp_, local_;
};

}  // namespace karez::comm
