// Adds, counts and drops launches.
#include "karez/runtime/launch/launch_table.h"

#include <algorithm>
#include <utility>

namespace karez::runtime {

void LaunchTable::add(std::shared_ptr<LaunchRecord> record) {
  const bool is_launch = record->loaded != nullptr || record->remote_only;
  if (is_launch) record->index = ++launched_;
  record->ticket = is_launch ? next_ticket_++ : next_ticket_;
  records_.push_back(std::move(record));
}

int LaunchTable::active() const {
  return static_cast<int>(std::count_if(records_.begin(), records_.end(),
                                        [](const auto& record) { return record->loaded != nullptr && !record->over; }));
}

bool LaunchTable::has_capacity(bool several_ranks) const {
  return active() < in_flight_ &&
         (!several_ranks || std::all_of(records_.begin(), records_.end(), [&](const auto& record) {
           return record->over || record->index == 0 || record->index + report_within > launched_;
         }));
}

bool LaunchTable::all_over() const {
  return std::all_of(records_.begin(), records_.end(), [](const auto& record) { return record->over; });
}

bool LaunchTable::all_over_before(std::uint64_t ticket) const {
  return std::all_of(records_.begin(), records_.end(),
                     [&](const auto& record) { return record->over || record->ticket >= ticket; });
}

FinishedLaunches LaunchTable::drop_finished() {
  FinishedLaunches out;
  std::erase_if(records_, [&](const auto& record) {
    if (!record->over) return false;
    out.feeds.push_back(std::move(record->feeds));
    out.arrays.push_back(std::move(record->arrays));
    out.producers.push_back(std::move(record->producers));
    out.outputs.push_back(std::move(record->outputs));
    return true;
  });
  return out;
}

void LaunchTable::drop_finished_remote() {
  std::erase_if(records_, [](const auto& record) { return record->remote_only && record->over; });
}

}  // namespace karez::runtime
