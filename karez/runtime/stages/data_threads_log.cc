// Adds acts and stalls of data sets to the logs of profiles.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/served_stream.h"

namespace karez::runtime {

void DataThreads::add_log(const std::shared_ptr<StageLog>& log) {
  std::lock_guard lock(mutex_);
  logs_.push_back(log);
}

void DataThreads::remove_log(const std::shared_ptr<StageLog>& log) {
  std::lock_guard lock(mutex_);
  logs_.erase(std::remove(logs_.begin(), logs_.end(), log), logs_.end());
}

void DataThreads::log_act(StageSpan span, const std::vector<StageExecution>& group) {
  for (const StageExecution& execution : group) {
    if (execution.emission != plan::StageResult::Emission::element) continue;
    ++span.elements;
    span.bytes += data::array_bytes(execution.output);
  }
  for (const auto& log : logs_) log->add(span);
}

void DataThreads::log_stall(ServedStream& stream, std::int64_t now) {
  const plan::StageId last(stream.machine->graph().stages.size() - 1);
  for (const auto& log : logs_) log->add({stream.label(last), 0, gettid(), now - stream.stalls.counted(), now, true});
}

}  // namespace karez::runtime
