// Implements WorldState and WorldLock: adds and removes variables, and restarts or ends a world.
#include "karez/api/state/world_state.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/runtime/session_thread.h"

namespace karez {
void WorldState::add_variable(const VariableKey& key, const Parameter& parameter, Mesh mesh, Layout layout) {
  variables.add(key, parameter, std::move(mesh), std::move(layout));
  parameter.on_destroy([weak_world = weak_from_this()] {
    if (auto world = weak_world.lock()) world->on_owner_destroyed();
  });
}

void WorldState::erase_variable(const VariableKey& key) {
  session.forget_variable(session_name(key));
  variables.erase(key);
}

void WorldState::drop_expired() {
  if (!has_expired_owners.exchange(false)) return;
  for (const VariableKey& key : variables.drop_expired()) session.forget_variable(session_name(key));
}

void WorldState::clear() {
  session.reload();
  variables.clear();
  ++generation;
}

void WorldState::restart(bool failed) {
  if (ranks.alone() || !failed) return clear();
  ranks.rejoin(options.peer_timeout, [&] {
    clear();
    session.leave_ranks();
  });
  session.join_ranks();
}

void WorldState::end_ranks(bool graceful) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!mutex.try_lock()) {
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::lock_guard lock(mutex, std::adopt_lock);
  ranks.end(graceful);
}

void WorldState::on_owner_destroyed() {
  if (runtime::is_forked_child()) return;
  has_expired_owners = true;
  if (holder.load() == std::this_thread::get_id()) return;  // this thread drops expired variables when it unlocks
  while (has_expired_owners && mutex.try_lock()) {  // if another thread holds the lock, it drops expired variables
    drop_expired();
    mutex.unlock();
  }
}

WorldLock::WorldLock(WorldState& world) : world_(world) {
  require(world.holder.load() != std::this_thread::get_id(),
          "the world is used while it compiles on this thread: an initialiser or a rule of an op must not call "
          "compiled functions and must not read or write variables");
  world.mutex.lock();
  world.holder = std::this_thread::get_id();
  world.drop_expired();
}

WorldLock::~WorldLock() {
  world_.drop_expired();
  world_.holder = std::thread::id();
  world_.mutex.unlock();
  if (world_.has_expired_owners) world_.on_owner_destroyed();
}

}  // namespace karez
