// The cost table that `karez doctor --kernels --save` keeps in the user's data folder. Later programs on the same
// processor plan with it.
#pragma once

#include <optional>
#include <string>

#include "karez/api/namespace.h"
#include "karez/device/processor.h"
#include "karez/sbp/cost.h"

namespace karez {

// Returns the path of the table for this processor: a file in $XDG_DATA_HOME/karez if that variable is an absolute
// path, otherwise in ~/.local/share/karez; "" if there is no home directory. The name of the file contains the name of
// the processor, so that machines that share a home directory have separate tables.
std::string saved_costs_path(const device::Processor& processor);

struct SavedCosts {
  std::string path;
  std::optional<CostTable> table;  // with the rates of every instruction set in the file
  std::string defect;              // why the file cannot be used: "was modified after it was saved"; "" if it can
};
// Reads a saved table for a process that may use `cores` cores. Without a file, there is neither a table nor a defect.
// A table is for one processor and number of CPUs, and must have the rates of this instruction set, for teams of up to
// `cores` threads.
SavedCosts read_saved_costs(const std::string& path, const device::Processor& processor, int cores);

// Writes the file under a temporary name and renames it, so that no program reads an incomplete table. Creates missing
// folders. Throws Error (kind data) if that fails.
void save_costs(const std::string& path, const CostTable& costs, const device::Processor& processor);

}  // namespace karez
