// Starts the idle team in a separate thread, because OpenMP releases a thread's team when the thread ends.
#include "karez/kernels/cpu/passive_teams.h"

#include "karez/kernels/cpu/team.h"

namespace karez::kernels {

PassiveTeams::PassiveTeams(int cpus)
    : owner_([this, cpus] {
        parallel_for(cpus + 1, cpus + 1, 1, [](std::int64_t, std::int64_t, int) {});
        std::unique_lock lock(mutex_);
        ready_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return stop_; });
      }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_; });
}

PassiveTeams::~PassiveTeams() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  owner_.join();
}

}  // namespace karez::kernels
