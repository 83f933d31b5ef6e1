// The price of one value: its transitions, and the accesses to its memory if it could fuse away but does not.
#pragma once

#include <vector>

#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/namespace.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

// A value that fuses (fused_values.h) costs nothing if all consumers require it in the layout in which it is produced.
// Otherwise it is stored: a call writes it, and others read it. Their seconds are those of one call that moves these
// bytes, so that the price of the value together with those of its producer and its consumers (device_seconds) is that
// of separate calls. A price never decreases if more layouts are required.
class ValuePrice {
 public:
  // `stored` caches the seconds of accesses by layout number.
  ValuePrice(TransitionTable& table, int fills, const FusedValue& fused, const CostTable& costs,
             std::vector<double>& stored)
      : table_(&table),
        fills_(fills),
        fused_(fused),
        costs_(&costs),
        stored_(&stored) {}

  TransitionTable& table() const { return *table_; }
  int fills() const { return fills_; }  // number of times that a launch computes the value
  const FusedValue& fused() const { return fused_; }

  // Seconds in a launch if the value is produced in layout `from` and required in the layouts of `set`.
  double seconds(int from, int set) const { return transfer_seconds(from, set) + access_seconds(from, set); }
  double transfer_seconds(int from, int set) const { return fills_ * table_->seconds(from, set); }
  double access_seconds(int from, int set) const;
  // True if the required layout may be left out of sets that contain `from`, because it never changes the price.
  bool implies(int from, int target) const { return !fused_.fuses() && table_->seconds(from, with(target)) == 0; }

 private:
  int with(int target) const { return table_->with(0, target); }
  double stored_seconds(int layout) const;

  TransitionTable* table_;
  int fills_;
  FusedValue fused_;
  const CostTable* costs_;
  std::vector<double>* stored_;
};

}  // namespace karez::passes
