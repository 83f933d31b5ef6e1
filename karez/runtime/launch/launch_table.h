// The launches of a session from their tickets until they are dropped. The session's mutex guards the table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "karez/runtime/launch/launch_record.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Objects of launches that are over, to be destroyed without the lock.
struct FinishedLaunches {
  std::vector<std::vector<Feed>> feeds;
  std::vector<std::vector<std::shared_ptr<const DeviceValue>>> arrays;
  std::vector<std::vector<std::shared_ptr<LaunchRecord>>> producers;
  std::vector<std::shared_ptr<const DeviceValues>> outputs;
};

class LaunchTable {
 public:
  explicit LaunchTable(int in_flight) : in_flight_(in_flight) {}

  // The error of a launch is reported to the program at the latest by the launch this many launches later.
  static constexpr std::int64_t report_within = 64;

  // Gives the record a ticket. A variable lock has the ticket of the next launch, which it precedes. Launches, also
  // those on other ranks' devices only, get an index.
  void add(std::shared_ptr<LaunchRecord> record);
  std::uint64_t next_ticket() const { return next_ticket_; }
  std::int64_t launched() const { return launched_; }  // the number of launches made so far
  const std::vector<std::shared_ptr<LaunchRecord>>& records() const { return records_; }  // by ticket

  int active() const;  // the number of launches that are not over
  // With several ranks, launches made `report_within` launches ago must be over too, so that all ranks agree on whether
  // they failed.
  bool has_capacity(bool several_ranks) const;
  bool all_over() const;
  bool all_over_before(std::uint64_t ticket) const;

  FinishedLaunches drop_finished();  // drops launches that are over; users hold the results that they still need
  void drop_finished_remote();       // drops launches on other ranks' devices that are over
  void clear() { records_.clear(); }

 private:
  const int in_flight_;
  std::vector<std::shared_ptr<LaunchRecord>> records_;
  std::uint64_t next_ticket_ = 1;
  std::int64_t launched_ = 0;
};

}  // namespace karez::runtime
