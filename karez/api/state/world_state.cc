// State that a world's threads share: variables by owner, and the locks for variables and for traces.
#include "karez/api/state/world_state.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/runtime/session_thread.h"

namespace karez {
std::map<WorldState::Key, StoredVariable>::const_iterator WorldState::find(const Parameter& parameter) const {
  const auto known = keys.find(parameter.identity());
  return known == keys.end() ? variables.end() : variables.find(known->second);
}

std::pair<std::string, int> WorldState::display_name(const Key& key, const StoredVariable& variable) {
  const Parameter owner = Parameter::of(variable.owner);
  if (owner == Parameter()) return key;
  return {owner.name(), owner.ordinal()};
}

void WorldState::erase(const Key& key) {
  const auto at = variables.find(key);
  session.forget_variable(key_of(key.first, key.second));
  keys.erase(at->second.owner);
  variables.erase(at);
}

std::map<WorldState::Key, StoredVariable>::const_iterator WorldState::stored(std::string_view name) const {
  std::vector<std::map<Key, StoredVariable>::const_iterator> found;
  std::vector<std::string> all;
  for (auto at = variables.begin(); at != variables.end(); ++at) {
    const auto [called_now, ordinal] = display_name(at->first, at->second);
    if (called_now != name) continue;
    found.push_back(at);
    all.push_back(cat(print(at->second.type, at->second.mesh, at->second.layout), " (ordinal ", ordinal, ")"));
  }
  if (found.empty())
    fail(ErrorKind::name, "no variable '", name,
         "' exists yet: a variable is created by the first call of a function that uses it; ",
         suggest_names(name, variables, [](const auto& item) { return display_name(item.first, item.second).first; }));
  if (found.size() == 1) return found[0];
  fail(ErrorKind::name, "'", name, "' is the name of ", all.size(), " variables: ", join(all, " and "),
       "; select one of them by its Parameter");
}

std::map<WorldState::Key, StoredVariable>::const_iterator WorldState::stored(const Parameter& parameter) const {
  auto at = find(parameter);
  require(ErrorKind::name, at != variables.end(), "no variable of this parameter '", parameter.name(),
          "' exists yet: it is created by the first call of a function that uses it",
          variables.count({parameter.name(), parameter.ordinal()}) > 0 ? "; another parameter has this name" : "");
  return at;
}

WorldState::Key WorldState::free_key(const Parameter& parameter) const {
  Key key{parameter.name(), parameter.ordinal()};
  while (variables.count(key) > 0) ++key.second;
  return key;
}

const LossScaleState& WorldState::loss_scale(const Mesh& mesh) {
  for (const auto& [where, state] : loss_scales)
    if (where == mesh) return state;
  return loss_scales.emplace_back(mesh, LossScaleState(loss_scales.size() + 1)).second;
}

void WorldState::add(const Key& key, const Parameter& parameter, Mesh mesh, Layout layout) {
  variables[key] = {parameter.identity(), parameter.type(), std::move(mesh), std::move(layout)};
  keys[parameter.identity()] = key;
  parameter.on_destroy([world = weak_from_this()] {
    if (auto alive = world.lock()) alive->on_owner_destroyed();
  });
}

void WorldState::drop_expired() {
  if (!has_expired_owners.exchange(false)) return;
  std::erase_if(variables, [&](const auto& item) {
    if (!item.second.owner.expired()) return false;
    session.forget_variable(key_of(item.first.first, item.first.second));
    keys.erase(item.second.owner);
    return true;
  });
}

void WorldState::clear() {
  session.reload();
  variables.clear();
  keys.clear();
  pending_weights = {};
  relocated_values.clear();
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

void WorldState::end_ranks(bool well) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!mutex.try_lock()) {
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::lock_guard lock(mutex, std::adopt_lock);
  ranks.end(well);
}

void WorldState::on_owner_destroyed() {
  if (runtime::is_forked_child()) return;
  has_expired_owners = true;
  if (holder.load() == std::this_thread::get_id()) return;  // handled at the end of its lock
  while (has_expired_owners && mutex.try_lock()) {          // otherwise another thread holds the lock and handles it
    drop_expired();
    mutex.unlock();
  }
}

WorldLock::WorldLock(WorldState& world) : world_(world) {
  require(world.holder.load() != std::this_thread::get_id(),
          "the world is used while it compiles on this thread: an initialiser or a rule of an op "
          "must not call functions, read "
          "or write");
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

TraceLock::TraceLock(WorldState& world, TraceOwner& traced) : world_(world), traced_(traced) {
  const std::thread::id me = std::this_thread::get_id();
  std::unique_lock lock(world.tracing);
  while (traced.thread != std::thread::id()) {
    // Follows the chain from the tracing thread to the function that it waits for, and so on, to find whether it leads
    // back to this thread.
    std::string way;
    for (std::thread::id thread = traced.thread; thread != std::thread::id();) {
      require(thread != me, "function '", traced.function, "' calls itself", way,
              " while it is traced; compiled functions cannot be recursive");
      auto next = world.waiting_for.find(thread);
      if (next == world.waiting_for.end()) break;
      way += cat(way.empty() ? " by way of '" : " and '", next->second->function, "'");
      thread = next->second->thread;
    }
    world.waiting_for[me] = &traced;
    world.trace_done.wait(lock);
    world.waiting_for.erase(me);
  }
  traced.thread = me;
}

TraceLock::~TraceLock() {
  std::lock_guard lock(world_.tracing);
  traced_.thread = {};
  world_.trace_done.notify_all();
}

}  // namespace karez
