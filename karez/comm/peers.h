// The other processes of a world: how each is reached, and the connections to each, made when first needed.
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

enum class LinkClass { shm, tcp, ucx };  // ucx: only if forced
std::string_view name_of(LinkClass link);
std::optional<LinkClass> link_class_from(
    std::string_view name);  // "" gives none: locality decides. Throws on an unknown name

struct PeersOptions {
  int rank = 0, ranks = 1;
  std::string interface = {};           // others reach this process at its address; "": loopback
  std::optional<LinkClass> force = {};  // none: KAREZ_LINK decides, or without it locality
  std::string host = {};                // "": this_host()
  Seconds timeout{30};                  // for a peer to join, and to be reached
  Seconds peer_timeout{30};             // the longest time without an acknowledgement from the peer's kernel
};

class Peers {
 public:
  // Publishes how this process is reached. All ranks of the world do so, in one store.
  Peers(Reactor& reactor, StoreClient& store, const Token& token, PeersOptions options);
  ~Peers();  // after all links are closed
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }

  const std::string& host() const { return options_.host; }           // of this rank
  std::optional<LinkClass> forced() const { return options_.force; }  // overrides locality

  // The connection to another rank, made now if there is none. The other rank must request it too, earlier or later:
  // the higher one dials, the lower one waits for it, so ranks cannot wait in a cycle. Throws Error (kind peer) with
  // the peer's name if it does not connect, or if any rank of the world has exited meanwhile.
  Connection& connect(int rank);
  // A second connection, made in the same way, whose messages do not wait for data. It is always a socket, so that the
  // kernel acknowledges for a process that does not respond.
  Connection& control(int rank);
  bool has_joined(int rank);       // has published how it is reached; queries the store
  LinkClass link_class(int rank);  // of that connection; may query the store
  // Discards all connections, which have no links any more, and any cancellation: the next `connect` makes new ones.
  // All ranks do so, and none requests a connection before all have. Late dials for old connections are rejected.
  void reset_connections();
  // From now on no thread waits for another rank here; `lost`: the rank that cannot continue. From any thread.
  void cancel_waits(const std::string& why, std::optional<int> lost = {});
  std::optional<int> lost() const;
  std::optional<int> awaited() const;   // the rank whose connection is awaited now; from any thread
  std::int64_t bytes_received() const;  // all bytes received on data connections; from any thread
  std::string name(int rank) const;     // "rank 1 (alpha, process 4711)", or "rank 1" if not known yet; from any thread
  bool is_stopped(int rank) const;      // by a signal, if that is visible from here (host.h); from any thread

 private:
  struct Peer {  // as published
    std::string name, host, tcp, local, process;
  };
  enum Lane { data_lane, control_lane, lane_count };
  struct LaneState {
    std::unique_ptr<Wire> incoming;  // the peer has dialled, and this rank has not requested it yet
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
  std::mutex connecting_;  // one thread at a time
  mutable std::mutex
      mutex_;  // guards data from the reactor's thread, `cancel_reason_`, and the peers as other threads read them
  std::condition_variable incoming_changed_;
  std::string cancel_reason_;  // empty: not cancelled
  std::optional<int> lost_;
  std::uint32_t generation_ = 0;  // of connections; each reset increments it
  std::atomic<int> awaited_{-1};
  std::vector<Entry> entries_;  // by rank
  std::unique_ptr<Acceptor> tcp_, local_;
};

}  // namespace karez::comm
