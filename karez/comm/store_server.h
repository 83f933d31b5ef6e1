// The store on sockets: rank 0 serves it on its communication thread, and every rank has one connection to it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "karez/comm/acceptor.h"
#include "karez/comm/handshake.h"
#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/socket.h"
#include "karez/comm/store.h"

namespace karez::comm {

class StoreServer {
 public:
  // Listens on loopback unless given another address; with port 0 the kernel chooses. A client counts as exited if its
  // host answers nothing for `unreachable`.
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
  Store::Client next_ = 1;
  std::vector<Store::Client> closed_clients_;  // to be dropped once no client is in a call
  std::unique_ptr<Acceptor> acceptor_;         // last member: destroyed first
};

// One rank's connection to the store. One thread at a time; every call waits for its reply. All throw Error: of kind
// peer if the store or another process has exited, or at the timeout.
class StoreClient {
 public:
  // Waits for the store to exist as `wait` says (by default for `timeout`), and fails once the store's host answers
  // nothing for `timeout`. Replies may take `reply_timeout`, or `timeout` if that is longer. `name` is this process in
  // errors: "alpha, process 4711".
  StoreClient(const Address& address, const Token& token, int rank, const std::string& name, Seconds timeout,
              Seconds reply_timeout = {}, ListenerWait wait = {});
  ~StoreClient();  // sends goodbye

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key, Seconds reply_timeout = {});  // for the reply
  std::string wait(const std::string& key);                                            // until a client sets it
  void barrier(const std::string& key, int processes,
               Seconds reply_timeout = {});  // until this number of processes has called it; throws at the timeout
  void check();                              // throws if a process has exited
  void disconnect();                         // leaves without a goodbye: waiting clients get an error
  std::string local_host() const;            // the address of this process on its connection to the store

 private:
  void send_goodbye(const std::string& why);
  StoreReply ask(const StoreRequest& request, const std::string& what, Seconds reply_timeout = {});

  std::mutex mutex_;
  Address address_;
  Seconds timeout_, reply_timeout_;
  Descriptor socket_;
};

inline constexpr const char* store_purpose = "store";

}  // namespace karez::comm
