// Rendezvous: rank 0 serves the store, every rank connects to it, and all agree on a token for their connections.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/handshake.h"
#include "karez/comm/rendezvous/launcher.h"
#include "karez/comm/rendezvous/pmix.h"
#include "karez/comm/rendezvous/store_server.h"

namespace karez::comm {

class Rendezvous {
 public:
  // Joins the n-th world of this process (counted from 0) with the n-th worlds of the other ranks. There must be at
  // least one other rank. Throws Error (kind peer) if another job uses the address, or if rank 0 does not begin the
  // world in time.
  //
  // Without a token from the launcher, all ranks are on one host. The store then accepts only processes of this user,
  // as the kernel reports (socket.h), and distributes a token that rank 0 creates.
  //
  // `timeout` limits each exchange of bytes, `reply_timeout` (by default `timeout`) the store's replies, and `wait` (by
  // default `timeout`) the time until rank 0 has begun.
  Rendezvous(Reactor& reactor, const JobLaunch& launch, int world, Seconds timeout = Seconds(30),
             Seconds reply_timeout = {}, const ListenerWait& wait = {});

  StoreClient& store() { return *client_; }
  const Token& token() const { return token_; }
  // For PeersOptions: "" on one host; on several hosts KAREZ_INTERFACE, or the address of the interface that reaches
  // rank 0.
  const std::string& interface() const { return interface_; }

 private:
  std::unique_ptr<Pmix> pmix_;           // null unless the launcher offers PMIx and the store needs it
  std::unique_ptr<StoreServer> server_;  // at rank 0
  std::unique_ptr<StoreClient> client_;
  Token token_;
  std::string interface_;
};

}  // namespace karez::comm
