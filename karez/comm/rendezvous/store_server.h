// Store server and store client: rank 0 serves the store on its communication thread, and every rank has a connection.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/acceptor.h"
#include "karez/comm/rendezvous/handshake.h"
#include "karez/comm/rendezvous/store.h"
#include "karez/comm/transport/reactor.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

class StoreServer {
 public:
  // Listens on loopback by default; with port 0 the kernel chooses the port. A client counts as exited if its host does
  // not respond for `unreachable`.
  StoreServer(Reactor& reactor, const Token& token, Address address = {}, AcceptorLimits limits = {},
              Seconds unreachable = Seconds(30));
  ~StoreServer();
  const Address& address() const { return acceptor_->address(); }
  std::int64_t rejected() const { return acceptor_->rejected(); }

 private:
  struct Client;
  void accept_client(Descriptor socket);
  void drop_closed_clients();

  Reactor& reactor_;
  const Seconds unreachable_;
  Store store_;
  std::unordered_map<Store::Client, std::unique_ptr<Client>> clients_;  // used on the reactor's thread only
  Store::Client next_client_ = 1;
  std::vector<Store::Client> closed_clients_;  // dropped once no client is in a call
  std::unique_ptr<Acceptor> acceptor_;         // last member: destroyed first
};

// One rank's connection to the store, for one thread at a time. Every call waits for its reply. All functions throw
// Error (kind peer) if the store or another process has exited, or at the timeout.
class StoreClient {
 public:
  // Waits until the store exists, for the time of `wait` (by default `timeout`), and fails if the store's host does not
  // respond for `timeout`. Replies may take the longer of `reply_timeout` and `timeout`. `name` is the name of this
  // process in errors: "alpha, process 4711".
  StoreClient(const Address& address, const Token& token, int rank, const std::string& name, Seconds timeout,
              Seconds reply_timeout = {}, ListenerWait wait = {});
  ~StoreClient();  // sends goodbye

  void set(const std::string& key, const std::string& value);
  // A `reply_timeout` given to a call replaces that of the constructor.
  std::optional<std::string> get(const std::string& key, Seconds reply_timeout = {});
  std::string wait(const std::string& key);  // waits until a client sets the key
  // Waits until this number of processes has called it.
  void barrier(const std::string& key, int processes, Seconds reply_timeout = {});
  void check();                    // throws if a process has exited
  void disconnect();               // leaves without a goodbye, so that waiting clients get an error
  std::string local_host() const;  // the address of this process on its connection to the store

 private:
  void send_goodbye(const std::string& reason);
  StoreReply request(const StoreRequest& request, const std::string& action, Seconds reply_timeout = {});

  std::mutex mutex_;
  Address address_;
  Seconds timeout_, reply_timeout_;
  Descriptor socket_;
};

inline constexpr const char* store_purpose = "store";

}  // namespace karez::comm
