// Starts the ranks of a host with their environment variables and cores.
#include "tools/karez/run_ranks.h"

#include <unistd.h>

#include <array>

#include "karez/base/error.h"

namespace karez::tools {

void start_ranks(RankGroup& group, const RunJob& job) {
  require(job.folder.empty() || chdir(job.folder.c_str()) == 0, "cannot enter ", job.folder, " on ", host_name());
  const CpuBudget budget = cpu_budget();
  const bool crowded = job.local_ranks > budget.cores;
  const auto cores = cores_of_ranks(budget, job.local_ranks);
  for (int local = 0; local < job.local_ranks; ++local) {
    RankStart start{job.first_rank + local, job.words, job.variables, {}};
    start.variables.emplace_back("KAREZ_RANK", std::to_string(start.rank));
    start.variables.emplace_back("KAREZ_LOCAL_RANK", std::to_string(local));
    start.variables.emplace_back("KAREZ_LOCAL_RANKS", std::to_string(job.local_ranks));
    start.variables.emplace_back("KAREZ_CROWDED", crowded ? "1" : "0");
    if (job.bind) start.cpus = cores[static_cast<std::size_t>(local)];
    group.start(start);
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string name_of_rank(const RankGroup& group, int rank) {
  return cat("rank ", rank, " (", host_name(), ", process ", group.process_of(rank), ")");
}

}  // namespace karez::tools
