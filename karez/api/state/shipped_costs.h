// Cost tables that come with Karez, by the processor that they were measured on.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "karez/api/namespace.h"
#include "karez/device/processor.h"
#include "karez/sbp/cost.h"

namespace karez {

struct ShippedCosts {
  std::string_view processor;  // as device::Processor names it
  std::string_view text;       // of the table, which says when it was measured
};
std::span<const ShippedCosts> all_shipped_costs();

// The table of this processor; where there is none, the default one, whose origin says so.
CostTable costs_for(const device::Processor& processor);

}  // namespace karez
