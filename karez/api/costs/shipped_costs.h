// Cost tables that are shipped with Karez, by the processor on which they were measured.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "karez/api/namespace.h"
#include "karez/device/processor.h"
#include "karez/sbp/cost.h"

namespace karez {

// The cost table of one processor.
struct ShippedCosts {
  std::string_view processor;  // the name in device::Processor
  std::string_view text;       // the table, with the date of measurement
};
std::span<const ShippedCosts> all_shipped_costs();

// Returns the table of this processor. If there is none, returns the default table with an origin that says so.
CostTable costs_for(const device::Processor& processor);

}  // namespace karez
