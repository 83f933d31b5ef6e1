// The record of a launch, from the time when it gets its ticket until it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/source.h"
#include "karez/runtime/device_value.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/variables.h"
#include "karez/runtime/worker/mailbox.h"

namespace karez::runtime {

class Session;
struct LoadedPlan;

// How the program uses the launches of a plan. Guarded by the session's mutex.
struct LaunchHabit {
  bool awaited_soon = false;  // the program waited for the last launch right after it had made it
  std::int64_t ticks = 0;     // between the ticket and the end of the last launch that is over
};

// A launch. A record without a plan is a client's variable lock, or a launch that runs only on devices of other ranks.
struct LaunchRecord {
  Session* session = nullptr;
  LoadedPlan* loaded = nullptr;
  std::uint64_t ticket = 0;
  const std::vector<VariableAccess>* accesses = nullptr;   // sorted by variable
  bool remote_only = false;                                // the launch runs only on devices of other ranks
  bool running = false;                                    // used by worker 0
  bool granted = false, over = false, ended = false;       // guarded by the session's mutex; ended: on this rank
  std::uint64_t op = 0;                                    // number of the op; 0: a launch of this rank only
  std::int64_t index = 0;                                  // its number among the session's launches, from 1; lock: 0
  std::vector<Feed> feeds;                                 // by input binding
  std::vector<std::shared_ptr<const DeviceValue>> arrays;  // by input binding; null or absent if it has a feed
  std::vector<std::shared_ptr<LaunchRecord>> producers;    // the launches of `arrays`; they may be over
  std::shared_ptr<const DeviceValues> outputs;             // by fetch binding
  std::vector<std::byte*> targets;                         // addresses of the outputs' shards, for the workers
  std::shared_ptr<LaunchHabit> habit;                      // of its plan; null for a variable lock
  std::int64_t queued_at = 0, made_at = 0;                 // in ticks; made_at: when the program got the launch
  bool may_block = false;                                  // a source may wait for other threads
  Mail mail;
  std::mutex mutex;
  std::optional<Error> error;  // the first error
  // Used by worker 0 until the launch has ended on this rank.
  std::int64_t number = -1;                  // its number within its plan, once it runs
  bool invalidated = false;                  // the launch failed on another rank before it began here
  bool released = false;                     // all ranks have poisoned the launch
  bool skipped = false;                      // the launch has no error of its own, but some acts ran no kernels
  bool has_written = false;                  // an act that writes a variable ran
  bool plan_unusable = false;                // its plan cannot run again until a reload
  std::vector<VariableAccess> own_accesses;  // the accesses of a variable lock
  Mail end;                                  // the mail that releases a variable lock
};

// An entry of LoadedPlan::active_launches, where acts look up the launch to which they belong.
struct ActiveLaunch {
  std::atomic<LaunchRecord*> record{nullptr};
  std::atomic<std::uint64_t> ticket{0};
  std::atomic<std::int64_t> number{-1};  // within the plan
};

}  // namespace karez::runtime
