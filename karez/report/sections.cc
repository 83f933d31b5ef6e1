// Builds the tables of a report: traffic between devices, memory by module, time by source line, and critical cycles.
#include "karez/report/sections.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/plan/call_bytes.h"
#include "karez/plan/external_registers.h"
#include "karez/report/critical_cycle.h"
#include "karez/report/origin.h"
#include "karez/report/table.h"

namespace karez::report {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Section transfer_section(const Plan& plan, const ById<ActorId, double>& seconds, std::string_view caution) {
  if (plan.transfers.empty()) return {"Traffic between devices: none", {}, ""};
  const auto transfer = transfer_indices(plan);
  std::vector<double> duration(plan.transfers.size());
  std::vector<std::string> where(plan.transfers.size());
  for (ActorId a : plan.actors.ids())
    if (int t = transfer[static_cast<std::size_t>(a.index)]; t >= 0)
      duration[static_cast<std::size_t>(t)] = std::max(duration[static_cast<std::size_t>(t)], seconds[a]);
  std::vector<std::size_t> order(plan.transfers.size());
  for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return duration[a] > duration[b]; });
  double total = 0;
  std::int64_t bytes = 0;
  Rows rows = {{"us", "bytes", "kind", "axis", "value"}};
  for (std::size_t t : order) {
    const Transfer& transfer_entry = plan.transfers[t];
    rows.push_back({microseconds(duration[t]), cat(transfer_entry.bytes), std::string(name_of(transfer_entry.kind)),
                    transfer_entry.axis, transfer_entry.value});
    total += duration[t], bytes += transfer_entry.bytes;
  }
  return {cat("Traffic between devices: ", plan.transfers.size(),
              plan.transfers.size() == 1 ? " transfer, " : " transfers, ", bytes_text(bytes), " (", bytes,
              " bytes) a launch, ", microseconds(total), " us in sequence, predicted", caution),
          std::move(rows), ""};
}

struct ModuleMemory {
  std::int64_t variables = 0, state = 0, registers = 0;  // bytes that several registers share are counted once
  std::int64_t sum() const { return variables + state + registers; }
};

// The variable "fc1.weight" belongs to module fc1. The variable "adam.m.fc1.weight" is state of fc1, because a variable
// named "fc1.weight" exists.
std::map<std::string, ModuleMemory> memory_of_modules(const Plan& plan) {
  std::set<std::string> names;
  for (const Block& block : plan.blocks)
    if (block.kind == BlockKind::variable) names.insert(block.name);
  auto module_of = [](const std::string& name) {
    return name.find('.') == std::string::npos ? std::string() : name.substr(0, name.rfind('.'));
  };
  std::map<std::string, ModuleMemory> out;
  for (const Block& block : plan.blocks) {
    if (block.kind != BlockKind::variable) continue;
    std::string owner = block.name;
    for (std::size_t dot = block.name.find('.'); dot != std::string::npos; dot = block.name.find('.', dot + 1))
      if (names.count(block.name.substr(dot + 1)) > 0) {
        owner = block.name.substr(dot + 1);
        break;
      }
    ModuleMemory& memory = out[module_of(owner)];
    (owner == block.name ? memory.variables : memory.state) += block.bytes;
  }
  std::map<std::pair<std::string, BlockId>, std::vector<std::pair<std::int64_t, std::int64_t>>>
      ranges;  // begins and ends of slots
  for (RegisterId r : plan.registers.ids()) {
    const Register& reg = plan.registers[r];
    if (!reg.block.valid() || plan.block(reg.block).kind == BlockKind::variable || is_external(plan, r)) continue;
    std::string module = "(inputs)";
    if (reg.producer != session_actor && plan.actor(reg.producer).body != BodyKind::input) {
      const Actor& actor = plan.actor(reg.producer);
      module = origin_of(actor.collective ? actor.collective->where : actor.where).module;
      for (const Call& call : actor.calls)
        for (const Operand& output : call.out)
          if (output.reg == r) module = origin_of(call.where).module;
    }
    for (int slot = 0; slot < reg.slots; ++slot)
      ranges[{module, reg.block}].emplace_back(reg.offset + slot * reg.stride,
                                               reg.offset + slot * reg.stride + reg.bytes);
  }
  for (auto& [where, slots] : ranges) {
    std::sort(slots.begin(), slots.end());
    std::int64_t covered_end = 0;
    for (const auto& [begin, end] : slots) {
      out[where.first].registers += std::max<std::int64_t>(0, end - std::max(begin, covered_end));
      covered_end = std::max(covered_end, end);
    }
  }
  return out;
}

Section memory_by_module(const Plan& plan) {
  const auto modules = memory_of_modules(plan);
  std::vector<std::pair<std::string, ModuleMemory>> order(modules.begin(), modules.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.sum() > b.second.sum(); });
  auto bytes = [](std::int64_t n) { return n == 0 ? std::string("-") : bytes_text(n); };
  Rows rows = {{"total", "variables", "state", "registers", "module"}};
  for (const auto& [module, memory] : order)
    rows.push_back({bytes(memory.sum()), bytes(memory.variables), bytes(memory.state), bytes(memory.registers),
                    module.empty() ? "(no module)" : module});
  std::map<BlockKind, std::int64_t> kinds;
  std::int64_t total = 0;
  for (const Block& block : plan.blocks)
    if (block.kind != BlockKind::external) kinds[block.kind] += block.bytes, total += block.bytes;
  std::string out = cat(
      "Memory by module, on all ", plan.devices.size(), " devices: ", bytes_text(total), " in blocks (",
      join(kinds, ", ", [](const auto& kind) { return cat(name_of(kind.first), " ", bytes_text(kind.second)); }), ")");
  if (plan.devices.size() == 1) out.replace(out.find("on all 1 devices"), 16, "on its device");
  return {out, std::move(rows),
          "All calls of a device share its scratch memory, and registers of several modules may share bytes, so the "
          "columns need not add up to the size of the blocks."};
}

std::string name_of_step(const Plan& plan, const CriticalCycle& critical, const SlotCycle::Step& step) {
  const auto& members = critical.actors[static_cast<std::size_t>(step.actor)];
  if (members.empty()) return "the session";
  std::string out = cat("a", members[0], " ", plan.actor(members[0]).name);
  if (plan.actor(members[0]).collective && members.size() == 1) out += " joins";
  if (members.size() > 1)
    out += cat(" and its ", members.size() - 1, members.size() == 2 ? " other member" : " other members");
  return step.act > 0 ? cat(out, ", act ", step.act) : out;
}

// Returns the name of the variable in the register; "" if there is none.
std::string variable_of(const Plan& plan, RegisterId r) {
  const BlockId block = r.valid() ? plan.reg(r).block : BlockId();
  return block.valid() && plan.block(block).kind == BlockKind::variable ? plan.block(block).name : std::string();
}

std::string reason_of_step(const Plan& plan, const CriticalCycle& critical, const SlotCycle::Step& step) {
  const auto index = static_cast<std::size_t>(step.index);
  switch (step.kind) {
    case SlotCycle::WaitKind::data: {
      const RegisterId r = critical.registers[index];
      if (!r.valid()) return "is a member";
      if (const std::string name = variable_of(plan, r); !name.empty()) return cat("grants variable ", name);
      return cat("fills r", r, plan.reg(r).type.empty() ? "" : " " + plan.reg(r).type);
    }
    case SlotCycle::WaitKind::slot:
      if (const std::string name = variable_of(plan, critical.registers[index]); !name.empty())
        return cat("returns variable ", name);
      if (!critical.registers[index].valid()) return "ends before its member joins again";
      return cat("returns the slot of r", critical.registers[index], " (", plan.reg(critical.registers[index]).slots,
                 " in total)");
    case SlotCycle::WaitKind::actor: return "its own next act";
    case SlotCycle::WaitKind::stream: return cat("next on ", critical.streams[index]);
  }
  return "";
}

Rows steps_of(const Plan& plan, const CriticalCycle& critical, const ById<ActorId, double>& seconds) {
  Rows rows = {{"us", "actor", "why the next one waits for it"}};
  for (const SlotCycle::Step& step : critical.cycle.steps) {
    double duration = 0;
    const auto& members = critical.actors[static_cast<std::size_t>(step.actor)];
    for (ActorId member : members)
      if (members.size() > 1 || !plan.actor(member).collective) duration = std::max(duration, seconds[member]);
    rows.push_back({microseconds(duration), name_of_step(plan, critical, step), reason_of_step(plan, critical, step)});
  }
  return rows;
}

Section source_lines(const Plan& plan, const Predictor& predictor, const ById<ActorId, double>& seconds) {
  struct Line {
    double seconds = 0, bytes = 0;
    std::int64_t calls = 0;
    std::map<std::string, double> ops;
  };
  std::map<std::string, Line> lines;
  const auto acts = acts_per_launch(plan);
  double total = 0;
  auto add = [&](std::string_view where, const std::string& op, double duration, double bytes, std::int64_t times) {
    const Origin origin = origin_of(where);
    Line& line = lines[origin.line.empty() ? "(no line)" : origin.line];
    line.seconds += duration * static_cast<double>(times), line.bytes += bytes * static_cast<double>(times),
        line.calls += times;
    line.ops[op.empty() ? origin.op : op] += duration * static_cast<double>(times);
    total += duration * static_cast<double>(times);
  };
  for (ActorId a : plan.actors.ids()) {
    const Actor& actor = plan.actors[a];
    for (const Call& call : actor.calls)
      add(call.where, "", predictor.call(call), static_cast<double>(plan::bytes_of(call)), acts[a]);
    if (actor.calls.empty() && seconds[a] > 0)
      add(actor.collective ? actor.collective->where : actor.where,
          std::string(actor.collective ? name_of(actor.collective->kind) : name_of(actor.body)), seconds[a], 0,
          acts[a]);
  }
  std::vector<std::pair<std::string, Line>> order(lines.begin(), lines.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Rows rows = {{"us", "share", "calls", "MiB accessed", "line", "ops, most expensive first"}};
  for (const auto& [name, line] : order) {
    std::vector<std::pair<std::string, double>> ops(line.ops.begin(), line.ops.end());
    std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    if (ops.size() > 4) ops.resize(4), ops.emplace_back("...", 0);
    rows.push_back({microseconds(line.seconds), percent(total > 0 ? line.seconds / total : 0), cat(line.calls),
                    fixed(line.bytes / (1 << 20), 2), name, join(ops, ", ", [](const auto& op) { return op.first; })});
  }
  return {cat("Source lines, summed over devices, forward and backward: ", microseconds(total),
              " us of work a launch, predicted", default_costs_warning(predictor.costs())),
          std::move(rows), ""};
}

}  // namespace

std::string device_text(const Plan& plan, DeviceId id) {
  const PlanDevice& device = plan.devices[id];
  return cat(device.kind, " ", device.rank, ".", device.device);
}

std::vector<Section> sections_of(const Plan& plan, const Prediction& launch) {
  std::vector<Section> out = {transfer_section(plan, launch.acts, default_costs_warning(launch.predictor.costs())),
                              memory_by_module(plan), source_lines(plan, launch.predictor, launch.acts)};
  for (Section& section : critical_cycle_sections(plan, launch)) out.push_back(std::move(section));
  return out;
}

std::vector<Section> critical_cycle_sections(const Plan& plan, const Prediction& launch) {
  const CriticalCycle sequential = critical_cycle(plan, launch.acts, false),
                      overlapping = critical_cycle(plan, launch.acts, true);
  const auto caution = default_costs_warning(launch.predictor.costs());
  const std::string sequential_text = microseconds(launch.seconds),
                    overlapping_text = microseconds(overlapping.cycle.interval);
  Section first{
      cat("Critical cycle if launches run one at a time: ", sequential_text, " us a launch, predicted", caution),
      {},
      ""};
  if (!sequential.cycle.steps.empty()) first.rows = steps_of(plan, sequential, launch.acts);
  Section second{
      cat("Launches that overlap as far as slots allow: ", overlapping_text, " us a launch, predicted", caution),
      {},
      ""};
  if (!overlapping.cycle.steps.empty() && overlapping_text != sequential_text)
    second.rows = steps_of(plan, overlapping, launch.acts);
  return {std::move(first), std::move(second)};
}

Section actors_of(const Plan& plan, const ById<ActorId, double>& seconds) {
  const auto acts = acts_per_launch(plan);
  auto ports = [](const std::vector<Port>& list) {
    return join(list, " ", [](const Port& port) {
      return port.period == 1 ? cat("r", port.reg) : cat("r", port.reg, "/", port.period);
    });
  };
  Rows rows = {{"actor", "name", "device", "stream", "acts", "calls", "us per act", "reads", "fills", "at"}};
  for (ActorId a : plan.actors.ids()) {
    const Actor& actor = plan.actor(a);
    const Stream& stream = plan.stream(actor.stream);
    rows.push_back({cat("a", a), actor.name, device_text(plan, stream.device), cat(stream.kind), cat(acts[a]),
                    cat(actor.calls.size()), microseconds(seconds[a]), ports(actor.inputs), ports(actor.outputs),
                    actor.where});
  }
  return {cat("Actors: ", plan.actors.size()), std::move(rows),
          "r4/2 is a port of register r4 that advances in every second act."};
}

}  // namespace karez::report
