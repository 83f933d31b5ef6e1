// The peer of actor_hop: measures a hop between two CAF actors on one scheduler thread. Two messages are in flight, as
// with two slots. Prints "hop NS".
#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace {

using filled = caf::atom_constant<caf::atom("filled")>;
using returned = caf::atom_constant<caf::atom("returned")>;
using launch = caf::atom_constant<caf::atom("launch")>;

constexpr std::int64_t pieces = 500000, slots = 2;

caf::behavior consumer() {
  return {
      [](filled, std::int64_t piece, const caf::actor& producer) { caf::anon_send(producer, returned::value, piece); }};
}

struct ProducerState {
  std::int64_t sent = 0, returned_count = 0;
  caf::response_promise result;
};

caf::behavior producer(caf::stateful_actor<ProducerState>* self, const caf::actor& consumer_actor) {
  auto send_next = [self, consumer_actor] {
    self->send(consumer_actor, filled::value, self->state.sent++, caf::actor_cast<caf::actor>(self));
  };
  return {
      [=](launch) {
        self->state = {};
        self->state.result = self->make_response_promise();
        for (std::int64_t i = 0; i < slots; ++i) send_next();
        return self->state.result;
      },
      [=](returned, std::int64_t) {
        if (self->state.sent < pieces) send_next();
        if (++self->state.returned_count == pieces) self->state.result.deliver(self->state.returned_count);
      },
  };
}

}  // namespace

int main() {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", 1);
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto consumer_actor = system.spawn(consumer);
  auto producer_actor = system.spawn(producer, consumer_actor);
  double ns = 0;
  for (int round = 0; round < 2; ++round) {  // the first round warms up
    auto begin = std::chrono::steady_clock::now();
    std::int64_t returned_count = 0;
    self->request(producer_actor, caf::infinite, launch::value)
        .receive([&](std::int64_t n) { returned_count = n; },
                 [&](caf::error& e) { std::printf("error %s\n", system.render(e).c_str()); });
    ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(pieces);
    if (returned_count != pieces) return 1;
  }
  std::printf("hop %.1f\n", ns);
  self->send_exit(producer_actor, caf::exit_reason::user_shutdown);
  self->send_exit(consumer_actor, caf::exit_reason::user_shutdown);
  return 0;
}
