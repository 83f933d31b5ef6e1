// Where the ranks of a job meet: rank 0 serves the store, every rank is a client of it, and all have one token for what
// they build on it.
#pragma once

#include <memory>
#include <string>

#include "karez/comm/launcher.h"
#include "karez/comm/namespace.h"
#include "karez/comm/pmix.h"
#include "karez/comm/store_server.h"

namespace karez::comm {

class Rendezvous {
 public:
  // The n-th world of this process, from 0, meets the n-th of the others. There are at least two ranks. Throws Error
  // (kind peer) where the others do not come within `timeout`, or somebody else is there.
  //
  // Where the launcher brought no token, all ranks are on one host: the store then takes only processes of this user,
  // as the kernel tells (socket.h), and hands out a token that rank 0 made.
  //
  // The store's answers may take `patience`, or else as long.
  Rendezvous(Reactor& reactor, const JobLaunch& launch, int world, Seconds timeout = Seconds(30),
             Seconds reply_timeout = {});

  StoreClient& store() { return *client_; }
  const Token& token() const { return token_; }
  // For PeersOptions: "" on one host; on several the address of the one interface that reaches rank 0, or
  // KAREZ_INTERFACE.
  const std::string& interface() const { return interface_; }

 private:
  std::unique_ptr<Pmix> pmix_;           // where the launcher offers it and it is needed
  std::unique_ptr<StoreServer> server_;  // at rank 0
  std::unique_ptr<StoreClient> client_;
  Token token_;
  std::string interface_;
};

}  // namespace karez::comm
