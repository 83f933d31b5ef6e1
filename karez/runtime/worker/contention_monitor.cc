// Measures how long threads wait for a core. With fewer cores than threads, threads that spin at a barrier keep a core
// busy for one time slice after another, although the thread that they wait for needs it.
#include "karez/runtime/worker/contention_monitor.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "karez/base/log.h"
#include "karez/device/cpu_contention.h"
#include "karez/kernels/cpu/passive_teams.h"

namespace karez::runtime {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

ContentionMonitor::ContentionMonitor(int cpus, std::string root)
    : thread_([this, cpus, root = std::move(root)] { run(cpus, root); }) {}

ContentionMonitor::~ContentionMonitor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void ContentionMonitor::run(int cpus, const std::string& root) {
  prctl(PR_SET_NAME, thread_name);
  device::SchedTimesReader sched_times(root);
  device::CpuContention contention;
  std::optional<kernels::PassiveTeams> passive_teams;
  auto last_check = Clock::now();
  Clock::duration period = milliseconds(100);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, period, [this] { return stop_; })) return;
    }
    const auto check_begin = Clock::now();
    const auto times = sched_times.since_last();
    if (!times)
      return base::note(base::LogLevel::info,
                        "this kernel does not report how long threads wait for a core: threads of a team spin even if "
                        "other programs use the cores");
    contention.update(*times, check_begin - last_check);
    if (contention.contended() != passive_teams.has_value()) {
      if (passive_teams) passive_teams.reset();
      else passive_teams.emplace(cpus);
      times_ += passive_teams ? 1 : 0;
      crowded_ = passive_teams.has_value();
      if (passive_teams && times_ == 1)
        base::note(base::LogLevel::info,
                   "other programs use the same cores: until they stop, threads of a team sleep instead of spinning "
                   "while they wait for each other");
    }
    // The period is so long that the checks take at most a thousandth of a core.
    const auto check_end = Clock::now();
    period = std::max<Clock::duration>(
        !crowded_ && times->ran < (check_begin - last_check) / 50 ? milliseconds(500) : milliseconds(100),
        1000 * (check_end - check_begin));
    last_check = check_begin;
  }
}

}  // namespace karez::runtime
