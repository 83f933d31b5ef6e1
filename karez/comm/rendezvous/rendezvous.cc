// Rendezvous: rank 0 starts the store, then every rank connects to it as a client.
#include "karez/comm/rendezvous/rendezvous.h"

#include "karez/base/error.h"
#include "karez/comm/rendezvous/host.h"

namespace karez::comm {
namespace {

// Rank 0 listens at the address that the other ranks use, unless an interface is given.
Address find_store_address(const JobLaunch& launch, int world) {
  if (launch.uses_pmix) return {launch.interface ? address_of(*launch.interface) : outward_address(), 0};
  Address out = store_address(launch, world);
  if (out.is_name()) return out;
  out.host = launch.rank == 0 && launch.interface ? address_of(*launch.interface) : address_of_host(out.host);
  return out;
}

}  // namespace

Rendezvous::Rendezvous(Reactor& reactor, const JobLaunch& launch, int world, Seconds timeout, Seconds reply_timeout,
                       const ListenerWait& wait) {
  require(launch.ranks > 1, "a rendezvous needs at least 2 ranks");
  const std::string key = cat("karez-store-", world);
  if (launch.uses_pmix) pmix_ = std::make_unique<Pmix>();
  Address address = launch.uses_pmix && launch.rank > 0
                        ? parse_address(pmix_->get(0, key, wait.timeout > Seconds(0) ? wait.timeout : timeout))
                        : find_store_address(launch, world);
  const Token store_token = launch.token.value_or(derive_token(cat("karez, no secret: ", print(address))));
  if (!launch.token && !address.is_name()) fail("the store at ", print(address), " needs a token");
  if (launch.rank == 0) {
    try {
      server_ = std::make_unique<StoreServer>(reactor, store_token, address, AcceptorLimits::for_ranks(launch.ranks),
                                              timeout);
    } catch (const Error& error) {
      fail(ErrorKind::peer, "rank 0 of ", launch.ranks, " from ", name_of(launch.launcher), ": ", error.what(),
           "; is another job of the same name running here, or is rank 0 on a different host from the one given (",
           launch.rank_variables, ")?");
    }
    if (launch.uses_pmix) pmix_->put(key, print(address = server_->address()));
  }
  try {
    client_ =
        std::make_unique<StoreClient>(address, store_token, launch.rank, this_process(), timeout, reply_timeout, wait);
  } catch (const Error& error) {
    fail(ErrorKind::peer, "rank ", launch.rank, " of ", launch.ranks, " from ", name_of(launch.launcher),
         " cannot join the others: ", error.what());
  }
  token_ = store_token;
  if (!launch.token) {
    if (launch.rank == 0) client_->set("token", print(token_ = random_token()));
    else token_ = parse_token(client_->wait("token"));
  }
  if (!launch.one_host) interface_ = launch.interface.value_or(client_->local_host());
}

}  // namespace karez::comm
