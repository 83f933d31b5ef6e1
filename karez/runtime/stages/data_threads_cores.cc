// The cores on which data threads run: those of the world's options, or chosen while the program reads elements.
#include <algorithm>
#include <utility>

#include "karez/device/cpu_budget.h"
#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/served_stream.h"

namespace karez::runtime {

namespace {
thread_local int bound_version = -1;  // of the CPUs to which the calling data thread is bound
}

void DataThreads::set_budget(int cores) {
  if (cores == 0) cores = cpus_.empty() ? device::cpu_budget().cores : static_cast<int>(cpus_.size());
  core_budget_.cores = 1000 * cores;
}

void DataThreads::choose_cores(int cores) {
  std::lock_guard lock(mutex_);
  core_tuner_.emplace(cores);
  tries_cores_ = cores > 1;
}

void DataThreads::restart_measurement() {
  std::lock_guard lock(mutex_);
  if (core_tuner_) core_tuner_->restart();
}

void DataThreads::set_cores(std::vector<int> cpus, int cores) {
  std::lock_guard lock(mutex_);
  cpus_ = std::move(cpus);
  ++cpus_version_;
  set_budget(cores);
  for (const auto& stream : streams_) {
    stream->own_cores = !cpus_.empty() || core_tuner_;
    if (stream->tuner) stream->tuner->set_cores(std::max(1, core_budget_.cores / 1000));
  }
  if (core_tuner_) core_tuner_->restart();
}

bool DataThreads::bind_thread() {
  if (bound_version == cpus_version_) return true;
  const bool is_first = std::exchange(bound_version, cpus_version_) < 0;
  if (cpus_.empty() && is_first) return true;
  return device::bind_to_cpus(cpus_.empty() ? all_cpus_ : cpus_);
}

// A process that cannot be bound runs on any core, as it did before.
void DataThreads::bind_process(int process) {
  if (std::exchange(processes_[process], cpus_version_) == cpus_version_) return;
  device::bind_process_to_cpus(process, cpus_.empty() ? all_cpus_ : cpus_);
}

double DataThreads::computing(const ServedStream& stream, double seconds_per_tick) {
  double out = 0;
  for (std::size_t i = 0; i < stream.times.size(); ++i)
    out += static_cast<double>(stream.times[i].acts) * seconds_per_tick * stream.cpu[i].share().value_or(1);
  return out;
}

void DataThreads::note_launch_read(std::int64_t now) {
  const std::int64_t launches = idle_clock_->launches();
  if (!core_tuner_ || std::exchange(noted_launches_, launches) == launches) return;
  double sum = ended_computing_;
  for (const auto& stream : streams_) sum += computing(*stream, seconds_per_tick());
  core_tuner_->note_read(time_of(now), sum);
  wanted_cores_ = core_tuner_->data_cores();
  tries_cores_ = !core_tuner_->is_settled();
}

}  // namespace karez::runtime
