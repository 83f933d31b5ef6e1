// The peer of actor_hop: the time of a hop between two CAF actors on one scheduler thread, with two credits that
// return. Prints "hop NS".
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
  std::int64_t sent = 0, home = 0;
  caf::response_promise over;
};

caf::behavior producer(caf::stateful_actor<ProducerState>* self, const caf::actor& to) {
  auto send_next = [self, to] { self->send(to, filled::value, self->state.sent++, caf::actor_cast<caf::actor>(self)); };
  return {
      [=](launch) {
        self->state = {};
        self->state.over = self->make_response_promise();
        for (std::int64_t i = 0; i < slots; ++i) send_next();
        return self->state.over;
      },
      [=](returned, std::int64_t) {
        if (self->state.sent < pieces) send_next();
        if (++self->state.home == pieces) self->state.over.deliver(self->state.home);
      },
  };
}

}  // namespace

int main() {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", 1);
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto to = system.spawn(consumer);
  auto from = system.spawn(producer, to);
  double ns = 0;
  for (int round = 0; round < 2; ++round) {  // the first warms up
    auto begin = std::chrono::steady_clock::now();
    std::int64_t home = 0;
    self->request(from, caf::infinite, launch::value)
        .receive([&](std::int64_t n) { home = n; },
                 [&](caf::error& e) { std::printf("error %s\n", system.render(e).c_str()); });
    ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(pieces);
    if (home != pieces) return 1;
  }
  std::printf("hop %.1f\n", ns);
  self->send_exit(from, caf::exit_reason::user_shutdown);
  self->send_exit(to, caf::exit_reason::user_shutdown);
  return 0;
}
