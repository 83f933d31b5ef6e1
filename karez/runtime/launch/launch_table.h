// The launches of a session from their tickets until they are dropped. The session's mutex guards the table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "karez/runtime/launch/launch_record.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Objects of launches that are over. The caller destroys them after unlocking the mutex.
struct FinishedLaunches {
  std::vector<std::vector<Feed>> feeds;
  std::vector<std::vector<std::shared_ptr<const DeviceValue>>> arrays;
  std::vector<std::vector<std::shared_ptr<LaunchRecord>>> producers;
  std::vector<std::shared_ptr<const DeviceValues>> outputs;
};

class LaunchTable {
 public:
  explicit LaunchTable(int in_flight) : in_flight_(in_flight) {}

  // The error of a launch is reported to the program at the latest when this many further launches have been made.
  static constexpr std::int64_t report_within = 64;

  // Gives the record a ticket. A variable lock gets the ticket of the next launch, which it precedes. Launches,
  // including those that run only on devices of other ranks, also get an index.
  void add(std::shared_ptr<LaunchRecord> record);
  std::uint64_t next_ticket() const { return next_ticket_; }
  std::int64_t launched() const { return launched_; }  // the number of launches made so far
  const std::vector<std::shared_ptr<LaunchRecord>>& records() const { return records_; }  // by ticket

  int active() const;  // the number of launches that are not over
  // True if another launch may be made. With several ranks, the launches made at least `report_within` launches ago
  // must also be over, so that all ranks agree on whether they failed.
  bool has_capacity(bool several_ranks) const;
  bool all_over() const;
  bool all_over_before(std::uint64_t ticket) const;

  FinishedLaunches drop_finished();  // drops launches that are over; the program holds the results that it still needs
  void drop_finished_remote();       // drops launches on devices of other ranks that are over
  void clear() { records_.clear(); }

 private:
  const int in_flight_;
  std::vector<std::shared_ptr<LaunchRecord>> records_;
  std::uint64_t next_ticket_ = 1;
  std::int64_t launched_ = 0;
};

}  // namespace karez::runtime
