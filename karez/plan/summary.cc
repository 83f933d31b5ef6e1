// The summary of a plan: counts, peak memory per device, plain kernels, casts, and a table of all transfers.
#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/plan/call_bytes.h"
#include "karez/plan/live_bytes.h"
#include "karez/plan/plan.h"

namespace karez::plan {
namespace {

// Formats rows as a table. Columns are as wide as their widest entry; the last column is not padded.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += " ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      out += " " + row[c];
      if (c + 1 < row.size()) out += std::string(width[c] - row[c].size() + 1, ' ');
    }
    out += "\n";
  }
  return out;
}

std::string counts_of_actors(const Plan& plan) {
  std::map<std::string_view, int> kinds;
  for (const Actor& a : plan.actors) ++kinds[name_of(a.body)];
  std::size_t calls = 0;
  for (const Actor& a : plan.actors) calls += a.calls.size();
  return cat(plan.actors.size(), " actors (",
             join(kinds, ", ", [](const auto& kind) { return cat(kind.second, " ", kind.first); }), "), ", calls,
             calls == 1 ? " kernel call" : " kernel calls",
             calls == 0 ? "" : cat(" (", bytes_text(bytes_of_calls(plan)), ")"), ", ", plan.registers.size(),
             " registers, ", messages_per_launch(plan), " messages per launch");
}

std::string ratio_text(std::int64_t bytes, std::int64_t bound) {
  const auto thousandths = static_cast<long>(1000 * static_cast<double>(bytes) / static_cast<double>(bound) + 0.5);
  const std::string digits = std::to_string(1000 + thousandths % 1000);
  return cat(thousandths / 1000, ".", digits.substr(1));
}

// Formats the planned bytes of registers and scratch on each device, and their ratio to the live-bytes bound.
std::string arenas(const Plan& plan) {
  const auto peak = arena_bytes(plan), bound = live_bytes(plan), run_ahead = run_ahead_bytes(plan);
  std::vector<std::vector<std::string>> rows;
  for (DeviceId d : plan.devices.ids()) {
    if (bound[d] == 0) continue;
    const PlanDevice& device = plan.devices[d];
    rows.push_back({cat(device.kind, " ", device.rank, ".", device.device), cat("planned ", bytes_text(peak[d]), ","),
                    cat("bound ", bytes_text(bound[d]), ","), cat("ratio ", ratio_text(peak[d], bound[d]))});
    if (run_ahead[d] > 0)
      rows.back().back() += cat("; ", ratio_text(peak[d], bound[d] + run_ahead[d]), " if the bound includes ",
                                bytes_text(run_ahead[d]), " for launches that run ahead");
  }
  return rows.empty() ? "" : "registers and scratch, relative to the bytes that are live at once\n" + table(rows);
}

std::vector<std::string> memory_row(const Plan& plan, DeviceId device) {
  std::map<BlockKind, std::int64_t> kinds;
  for (const Block& b : plan.blocks)
    if (b.device == device) kinds[b.kind] += b.bytes;
  const std::int64_t results = kinds[BlockKind::external];
  kinds.erase(BlockKind::external);
  const PlanDevice& d = plan.devices[device];
  auto format = [](const auto& kind) { return cat(name_of(kind.first), " ", bytes_text(kind.second)); };
  return {cat(d.kind, " ", d.rank, ".", d.device), bytes_text(planned_bytes(plan)[device]),
          cat(kinds.empty() ? "" : cat("(", join(kinds, ", ", format), ")"),
              results == 0 ? "" : cat("; each launch also allocates ", bytes_text(results), " of results"))};
}

std::string data_sets(const Plan& plan) {
  return plan.data_bytes == 0 ? "" : cat("memory of data sets on this rank: ", bytes_text(plan.data_bytes), "\n");
}

// Lists the calls that run on plain kernels. These are slow reference implementations, so they are always reported. The
// share of a kernel is relative to the bytes that all calls of the plan access.
std::string plain_calls(const Plan& plan) {
  struct PlainKernel {
    int calls = 0;
    double bytes = 0;
    std::string where;  // of the first call
  };
  std::map<std::string, PlainKernel> kernels_found;
  double total = 0;
  int plain_call_count = 0;
  for (const Actor& a : plan.actors)
    for (const Call& call : a.calls) {
      total += static_cast<double>(bytes_of(call));
      if (!starts_with(call.kernel, "plain.")) continue;
      ++plain_call_count;
      PlainKernel& kernel_use = kernels_found[call.kernel];
      if (kernel_use.calls++ == 0) kernel_use.where = call.where;
      kernel_use.bytes += static_cast<double>(bytes_of(call));
    }
  if (kernels_found.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"kernel", "calls", "share of bytes", "first call"}};
  for (const auto& [kernel, kernel_use] : kernels_found) {
    auto tenths = static_cast<long>(1000 * kernel_use.bytes / std::max(total, 1.0) + 0.5);
    rows.push_back({kernel, cat(kernel_use.calls), cat(tenths / 10, ".", tenths % 10, " %"), kernel_use.where});
  }
  return cat(plain_call_count, plain_call_count == 1 ? " call runs" : " calls run",
             " on a plain kernel, because no fast kernel supports the types or strides\n", table(rows));
}

// Counts conversions between 16-bit and other types: calls that only convert, and calls that also compute.
std::string casts(const Plan& plan) {
  int cast_calls = 0, converting_calls = 0;
  for (const Actor& actor : plan.actors)
    for (const Call& call : actor.calls) {
      bool halves = false, others = false;
      for (const auto* operands : {&call.in, &call.out})
        for (const Operand& operand : *operands) (is_half(operand.view.dtype) ? halves : others) = true;
      const bool cast = call.kernel.ends_with(".cast");
      cast_calls += halves && cast;
      converting_calls += halves && others && !cast;
    }
  if (cast_calls + converting_calls == 0) return "";
  return cat("mixed precision: ", cast_calls, " separate cast calls, ", converting_calls,
             " other calls that convert\n");
}

}  // namespace

ById<DeviceId, std::int64_t> planned_bytes(const Plan& plan) {
  ById<DeviceId, std::int64_t> bytes(plan.devices.size(), 0);
  for (const Block& b : plan.blocks)
    if (b.kind != BlockKind::external) bytes[b.device] += b.bytes;
  return bytes;
}

std::string summary(const Plan& plan) {
  if (plan.actors.empty())
    return cat("plan ", plan.name.empty() ? "" : cat("'", plan.name, "' "), "of rank ", plan.rank, " of ", plan.world,
               ": no device of this rank executes it\n", data_sets(plan));
  std::string out = cat("plan ", plan.name.empty() ? "" : cat("'", plan.name, "' "), "of rank ", plan.rank, " of ",
                        plan.world, ": ", plan.devices.size(), plan.devices.size() == 1 ? " device" : " devices", ", ",
                        plan.streams.size(), " streams\n", counts_of_actors(plan), "\n");

  std::vector<std::vector<std::string>> memory;
  for (std::size_t i = 0; i < plan.devices.size(); ++i) memory.push_back(memory_row(plan, DeviceId(i)));
  out += "peak memory by device\n" + table(memory) + data_sets(plan) + arenas(plan) + plain_calls(plan) + casts(plan);

  if (plan.transfers.empty()) return out + "no transfers between devices\n";
  std::vector<std::vector<std::string>> transfers = {{"kind", "axis", "bytes", "value"}};
  std::int64_t sum = 0;
  for (const Transfer& t : plan.transfers) {
    transfers.push_back({std::string(name_of(t.kind)), t.axis, cat(t.bytes), t.value});
    sum += t.bytes;
  }
  return out +
         cat(plan.transfers.size(), plan.transfers.size() == 1 ? " transfer, " : " transfers, ", bytes_text(sum), " (",
             sum, " bytes) per launch\n") +
         table(transfers);
}

}  // namespace karez::plan
