// Rendezvous: rank 0 serves the store, every rank is a client of it, and all agree on a token for their connections.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/handshake.h"
#include "karez/comm/launcher.h"
#include "karez/comm/namespace.h"
#include "karez/comm/pmix.h"
#include "karez/comm/store_server.h"

namespace karez::comm {

class Rendezvous {
 public:
  // Joins the n-th world of this process, from 0, to the n-th worlds of the others. There are at least two ranks.
  // Throws Error (kind peer) if another job uses the address, or if rank 0 does not begin it in time.
  //
  // If the launcher gives no token, all ranks are on one host: the store then accepts only processes of this user, as
  // the kernel reports (socket.h), and distributes a token that rank 0 creates.
  //
  // `timeout` limits each exchange of bytes, `reply_timeout` the store's answers (by default `timeout`), `wait` the
  // time until rank 0 has begun (by default `timeout`).
  Rendezvous(Reactor& reactor, const JobLaunch& launch, int world, Seconds timeout = Seconds(30),
             Seconds reply_timeout = {}, const ListenerWait& wait = {});

  StoreClient& store() { return *client_; }
  const Token& token() const { return token_; }
  // For PeersOptions: "" on one host; on several KAREZ_INTERFACE, or the address of the interface that reaches rank 0.
  const std::string& interface() const { return interface_; }

 private:
  std::unique_ptr<Pmix> pmix_;           // if the launcher offers it and it is needed
  std::unique_ptr<StoreServer> server_;  // at rank 0
  std::unique_ptr<StoreClient> client_;
  Token token_;
  std::string interface_;
};

}  // namespace karez::comm
