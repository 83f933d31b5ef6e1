// Reads the cost table of a world, and describes where it comes from.
#include "karez/api/costs/world_costs.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "karez/api/costs/saved_costs.h"
#include "karez/api/costs/shipped_costs.h"
#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/device/cpu_budget.h"
#include "karez/device/processor.h"

namespace karez {
namespace {

CostTable read_file(const std::string& file, const device::Processor& processor) {
  std::ifstream in(file);
  require(ErrorKind::data, in.good(), "cannot open the cost table '", file, "'");
  const CostTable table = CostTable::parse(std::string(std::istreambuf_iterator<char>(in), {}));
  CostTable costs = table.with_isa(processor.isa);
  if (costs.origin.empty()) costs.origin = cat("those of ", file);
  if (!table.sets.empty() && costs.sets.empty())
    costs.origin += cat("; its rates are not for the instruction set ", processor.isa,
                        ", so coarse rates are used (`karez doctor --kernels --costs ", file, "` measures them)");
  return costs;
}

CostTable saved_or_shipped_costs(const device::Processor& processor) {
  const SavedCosts saved = read_saved_costs(saved_costs_path(processor), processor, device::cpu_budget().cores);
  if (saved.table) {
    CostTable costs = saved.table->with_isa(processor.isa);
    costs.origin += cat(", saved in ", saved.path);
    return costs;
  }
  CostTable costs = costs_for(processor);
  if (saved.defect.empty()) return costs;
  const std::string reason = cat("the saved cost table ", saved.path, " is not used, because it ", saved.defect);
  base::note(base::LogLevel::warning, reason, "; `karez doctor --kernels --save` replaces it");
  costs.origin += cat("; ", reason);
  return costs;
}

}  // namespace

CostTable costs_of(const WorldOptions& options, int rank) {
  const device::Processor processor = device::processor();
  if (options.costs) {
    options.costs->check();
    CostTable costs = options.costs->with_isa(processor.isa);
    if (costs.origin.empty()) costs.origin = "those of WorldOptions::costs";
    return costs;
  }
  std::string file = options.cost_file;
  if (const char* variable = std::getenv("KAREZ_COSTS"); variable != nullptr && file.empty()) file = variable;
  if (file == "default") return costs_for({});
  if (!file.empty()) return read_file(file, processor);
  return rank == 0 ? saved_or_shipped_costs(processor) : costs_for(processor);
}

}  // namespace karez
