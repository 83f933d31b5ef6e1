// The other processes of a world: how each is reached, and the one connection to each, made when first needed.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/acceptor.h"
#include "comm/connection.h"
#include "comm/store_server.h"

namespace karez::comm {

enum class LinkClass { shm, tcp };
std::string_view name_of(LinkClass link);
std::optional<LinkClass> link_class_from(std::string_view name);  // "" is none: locality decides. Throws on another name

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

  // The connection to another rank, made now if there is none; the other rank asks for it too, sooner or later: the higher one dials, the
  // lower one waits for it, so no circle of ranks can wait. Throws Error (kind peer) with its name if it does not come, or if somebody of
  // the world has gone meanwhile.
  Connection& connect(int rank);
  LinkClass link_class(int rank);        // of that connection; may ask the store
  void give_up(const std::string& why);  // nobody waits for another rank here from now on; from any thread

 private:
  struct Peer {  // as published
    std::string name, host, tcp, local;
  };
  struct Entry {
    std::optional<Peer> peer;
    std::unique_ptr<Wire> came;  // it dialled, and nobody here has asked for it yet
    bool dialled = false;
    std::unique_ptr<Connection> connection;
  };

  const Peer& peer(int rank);
  LinkClass link_class_locked(int rank);
  void let_in(Descriptor socket, std::uint32_t who, LinkClass link);
  std::unique_ptr<Wire> dial_peer(int rank);
  std::unique_ptr<Wire> await_peer(int rank);

  Reactor& reactor_;
  StoreClient& store_;
  Token token_;
  PeersOptions options_;
  std::mutex connecting_;  // one at a time
  std::mutex mutex_;       // of what the reactor's thread brings, and of `given_up_`
  std::condition_variable came_;
  std::string given_up_;        // why
  std::vector<Entry> entries_;  // by rank
  std::unique_ptr<Acceptor> tcp_, local_;
};

}  // namespace karez::comm
