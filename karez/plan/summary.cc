// The summary of a plan: counts, peak memory per device and a table of all transfers.
#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/plan/live_bytes.h"
#include "karez/plan/plan.h"

namespace karez::plan {
namespace {

// Columns as wide as their widest entry; the last one is not padded.
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
             " kernel calls, ", plan.registers.size(), " registers, ", messages_per_launch(plan),
             " messages per launch");
}

std::string ratio_text(std::int64_t bytes, std::int64_t bound) {
  const auto thousandths = static_cast<long>(1000 * static_cast<double>(bytes) / static_cast<double>(bound) + 0.5);
  const std::string digits = std::to_string(1000 + thousandths % 1000);
  return cat(thousandths / 1000, ".", digits.substr(1));
}

// The bytes of registers and scratch, relative to those of the values that are live at once.
std::string arenas(const Plan& plan) {
  const auto peak = arena_bytes(plan), bound = live_bytes(plan), ahead = run_ahead_bytes(plan);
  std::vector<std::vector<std::string>> rows;
  for (DeviceId d : plan.devices.ids()) {
    if (bound[d] == 0) continue;
    const PlanDevice& device = plan.devices[d];
    rows.push_back({cat(device.kind, " ", device.rank, ".", device.device), cat("planned ", bytes_text(peak[d]), ","),
                    cat("bound ", bytes_text(bound[d]), ","), cat("ratio ", ratio_text(peak[d], bound[d]))});
    if (ahead[d] > 0)
      rows.back().back() += cat("; ", ratio_text(peak[d], bound[d] + ahead[d]), " with ", bytes_text(ahead[d]),
                                " of launches that run ahead");
  }
  return rows.empty() ? "" : "registers and scratch, relative to the bytes live at once\n" + table(rows);
}

std::vector<std::string> memory_row(const Plan& plan, DeviceId device) {
  std::map<BlockKind, std::int64_t> kinds;
  for (const Block& b : plan.blocks)
    if (b.device == device) kinds[b.kind] += b.bytes;
  const PlanDevice& d = plan.devices[device];
  auto one = [](const auto& kind) { return cat(name_of(kind.first), " ", bytes_text(kind.second)); };
  return {cat(d.kind, " ", d.rank, ".", d.device), bytes_text(planned_bytes(plan)[device]),
          kinds.empty() ? "" : cat("(", join(kinds, ", ", one), ")")};
}

// Calls on plain kernels, which are slow references and therefore always reported. Shares are of the bytes that all
// calls access.
std::string plain_calls(const Plan& plan) {
  auto touched = [](const Call& call) {
    double bytes = 0;
    for (const auto* operands : {&call.in, &call.out})
      for (const Operand& operand : *operands)
        bytes += static_cast<double>(operand.view.count() * size_of(operand.view.dtype));
    return bytes;
  };
  struct Found {
    int calls = 0;
    double bytes = 0;
    std::string where;  // of the first call
  };
  std::map<std::string, Found> found;
  double all = 0;
  int plain = 0;
  for (const Actor& a : plan.actors)
    for (const Call& call : a.calls) {
      all += touched(call);
      if (!starts_with(call.kernel, "plain.")) continue;
      ++plain;
      Found& one = found[call.kernel];
      if (one.calls++ == 0) one.where = call.where;
      one.bytes += touched(call);
    }
  if (found.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"kernel", "calls", "share of bytes", "first call"}};
  for (const auto& [kernel, one] : found) {
    auto tenths = static_cast<long>(1000 * one.bytes / std::max(all, 1.0) + 0.5);
    rows.push_back({kernel, cat(one.calls), cat(tenths / 10, ".", tenths % 10, " %"), one.where});
  }
  return cat(plain, plain == 1 ? " call runs" : " calls run",
             " on a plain kernel, because no fast kernel supports the types or strides\n", table(rows));
}

// Conversions between halves and other types: calls that only convert, and calls that convert their operands or
// results.
std::string casts(const Plan& plan) {
  int alone = 0, within = 0;
  for (const Actor& actor : plan.actors)
    for (const Call& call : actor.calls) {
      bool halves = false, others = false;
      for (const auto* operands : {&call.in, &call.out})
        for (const Operand& operand : *operands) (is_half(operand.view.dtype) ? halves : others) = true;
      const bool cast = call.kernel.ends_with(".cast");
      alone += halves && cast;
      within += halves && others && !cast;
    }
  if (alone + within == 0) return "";
  return cat("mixed precision: ", alone, " separate cast calls, ", within, " other calls that convert\n");
}

}  // namespace

ById<DeviceId, std::int64_t> planned_bytes(const Plan& plan) {
  ById<DeviceId, std::int64_t> bytes(plan.devices.size(), 0);
  for (const Block& b : plan.blocks) bytes[b.device] += b.bytes;
  return bytes;
}

std::string summary(const Plan& plan) {
  std::string out = cat("plan ", plan.name.empty() ? "" : cat("'", plan.name, "' "), "of rank ", plan.rank, " of ",
                        plan.world, ": ", plan.devices.size(), plan.devices.size() == 1 ? " device" : " devices", ", ",
                        plan.streams.size(), " streams\n", counts_of_actors(plan), "\n");

  std::vector<std::vector<std::string>> memory;
  for (std::size_t i = 0; i < plan.devices.size(); ++i) memory.push_back(memory_row(plan, DeviceId(i)));
  out += "peak memory by device\n" + table(memory) + arenas(plan) + plain_calls(plan) + casts(plan);

  if (plan.transfers.empty()) return out + "no transfers between devices\n";
  std::vector<std::vector<std::string>> transfers = {{"kind", "axis", "bytes", "value"}};
  std::int64_t sum = 0;
  for (const Transfer& t : plan.transfers) {
    transfers.push_back({t.kind, t.axis, cat(t.bytes), t.value});
    sum += t.bytes;
  }
  return out +
         cat(plan.transfers.size(), plan.transfers.size() == 1 ? " transfer, " : " transfers, ", bytes_text(sum), " (",
             sum, " bytes) per launch\n") +
         table(transfers);
}

}  // namespace karez::plan
