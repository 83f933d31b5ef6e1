// The store on sockets: rank 0 serves it on its communication thread, every rank asks it over one connection of its
// own.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "karez/comm/acceptor.h"
#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/socket.h"
#include "karez/comm/store.h"

namespace karez::comm {

class StoreServer {
 public:
  // Listens on loopback unless told another address; port 0 lets the kernel choose. A client whose host answers nothing
  // for `unreachable` has gone.
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
  std::unordered_map<Store::Client, std::unique_ptr<Client>> clients_;  // on the reactor's thread alone
  Store::Client next_ = 1;
  std::vector<Store::Client> closed_clients_;  // to be dropped once nobody is in a call
  std::unique_ptr<Acceptor> acceptor_;         // last: goes first
};

// One rank's way to the store. One thread at a time; every call waits for its answer. All throw Error: of kind peer
// where the store or somebody else has gone, or where the time is over.
class StoreClient {
 public:
  // Tries for `timeout` until the store is there, and is cut off when the store's host answers nothing for as long; its
  // answers may take `patience`, or else as long too. `name` is how errors call this process: "alpha, process 4711".
  StoreClient(const Address& address, const Token& token, int rank, const std::string& name, Seconds timeout,
              Seconds reply_timeout = {});
  ~StoreClient();  // says bye

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key, Seconds reply_timeout = {});  // for the answer
  std::string wait(const std::string& key);                                            // until somebody sets it
  void barrier(const std::string& key, int processes,
               Seconds reply_timeout = {});  // until so many are here, or throws when so long is over
  void check();                              // throws if somebody has gone
  void disconnect();                         // leaves without a bye: whoever waits hears of it
  std::string local_host() const;            // the address of this process by which it reaches the store

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
