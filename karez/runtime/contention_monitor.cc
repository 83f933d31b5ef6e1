// With fewer cores than threads, a barrier whose threads spin takes the core from the thread that it waits for, one
// scheduler time slice after another.
#include "karez/runtime/contention_monitor.h"

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
  called_.notify_all();
  thread_.join();
}

void ContentionMonitor::run(int cpus, const std::string& root) {
  prctl(PR_SET_NAME, thread_name);
  device::SchedTimesReader waits(root);
  device::CpuContention contention;
  std::optional<kernels::PassiveTeams> passive;
  auto last = Clock::now();
  Clock::duration period = milliseconds(100);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (called_.wait_for(lock, period, [this] { return stop_; })) return;
    }
    const auto begin = Clock::now();
    const auto since = waits.since_last();
    if (!since)
      return base::note(base::LogLevel::info,
                        "this kernel does not report how long threads wait for a core: threads of a team spin even if "
                        "other programs use the cores");
    contention.update(*since, begin - last);
    if (contention.contended() != passive.has_value()) {
      if (passive) passive.reset();
      else passive.emplace(cpus);
      times_ += passive ? 1 : 0;
      crowded_ = passive.has_value();
      if (passive && times_ == 1)
        base::note(base::LogLevel::info,
                   "other programs use the same cores: until they stop, threads of a team sleep instead of spinning "
                   "while they wait for each other");
    }
    // The checks take at most a thousandth of a core.
    const auto now = Clock::now();
    period = std::max<Clock::duration>(
        !crowded_ && since->ran < (begin - last) / 50 ? milliseconds(500) : milliseconds(100), 1000 * (now - begin));
    last = begin;
  }
}

}  // namespace karez::runtime
