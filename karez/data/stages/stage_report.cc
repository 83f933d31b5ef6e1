// Prints the actors of a data set.
#include "karez/data/stages/stage_report.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "karez/base/text.h"
#include "karez/data/dataset.h"

namespace karez::data {
namespace {

using plan::StageActivity;
using plan::StageId;

using Row = std::vector<std::string>;

// All columns except the last are aligned to the right.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      out += cat(std::string(widths[i] - row[i].size(), ' '), row[i], "  ");
    out += cat(row.back(), "\n");
  }
  return out;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

std::string microseconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  return text;
}

std::string share_text(const StageReport& report, StageActivity activity) {
  double total = 0;
  for (std::size_t i = 0; i < report.seconds.size(); ++i)
    if (i != static_cast<std::size_t>(StageActivity::inactive)) total += report.seconds[i];
  if (total <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * report.seconds[static_cast<std::size_t>(activity)] / total);
  return text;
}

// Whether acts mostly compute or mostly wait, such as for a disk, and the part of their time in which they compute.
std::string bound_text(const std::optional<double>& cpu) {
  if (!cpu) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%s, %.0f %%", *cpu >= 0.5 ? "CPU" : "IO", 100 * *cpu);
  return text;
}

// The state of each entry of the tree; null at the beginning of an epoch, or if the state is of another input.
std::vector<const StreamState*> states_of(const StageTree& tree, const StreamState* root) {
  std::vector<const StreamState*> states;
  for (const StageEntry& entry : tree.entries) {
    if (entry.parent < 0) {
      states.push_back(root);
      continue;
    }
    const StreamState* parent = states[static_cast<std::size_t>(entry.parent)];
    const DatasetNode& reader = *tree.entries[static_cast<std::size_t>(entry.parent)].node;
    const auto input = static_cast<std::size_t>(reader.input_of_state(parent, entry.input));
    if (parent != nullptr && reader.has_state())
      parent = input < parent->inputs.size() ? parent->inputs[input].get() : nullptr;
    states.push_back(parent);
  }
  return states;
}

std::string restoration_text(const StageTree& tree, const StageWork& work, std::span<const StreamState* const> states,
                             bool has_position) {
  std::vector<std::string> texts;
  for (int number : work.entries) {
    const StageEntry& entry = tree.entries[static_cast<std::size_t>(number)];
    std::string text = "index";
    if (!entry.by_index) {
      if (!entry.node->has_state()) continue;
      const Restoration restoration = entry.node->restoration(states[static_cast<std::size_t>(number)]);
      text = restoration.how;
      if (has_position && restoration.how != "numbers")
        text += cat(restoration.how.ends_with("replay") ? "" : ", replay", " of ", restoration.again,
                    restoration.again == 1 ? " element" : " elements");
    }
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  if (texts.size() > 1) std::erase(texts, "numbers");
  return texts.empty() ? "-" : join(texts, ", ");
}

// Whether the lanes, or the slots, of an actor are chosen while the stream runs.
bool has_automatic(const StageTree& tree, StageId actor, bool lanes) {
  for (const TunedUnit& unit : tree.tuned) {
    if (std::find(unit.stages.begin(), unit.stages.end(), actor) == unit.stages.end()) continue;
    return !lanes || (unit.most_lanes > 1 && unit.stages.size() == 1);
  }
  return false;
}

}  // namespace

bool continues_at(const StageTree& tree, const StreamState* state) {
  const auto states = states_of(tree, state);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const StageEntry& entry = tree.entries[i];
    if (!entry.by_index && entry.node->has_state() && entry.node->restoration(states[i]).how != "numbers") return false;
  }
  return tree.ordered;
}

std::string explain(const StageTree& tree, const StreamReport* report) {
  std::vector<Row> rows = {{"actor", "lanes", "slots"}};
  if (report != nullptr)
    for (const char* title :
         {"acts", "elements", "time", "per element", "acting", "no input", "no free slot", "bound by"})
      rows[0].emplace_back(title);
  rows[0].insert(rows[0].end(), {"position", "stages"});
  const auto states = states_of(tree, report == nullptr ? nullptr : report->state.get());
  for (StageId id : tree.graph.stages.ids()) {
    const plan::Stage& stage = tree.graph.stages[id];
    const StageWork& work = tree.work[id];
    const bool tuned_lanes = has_automatic(tree, id, true), tuned_slots = has_automatic(tree, id, false);
    const int slots = tree.work[id].single_slots > 0 ? tree.work[id].single_slots : stage.slots;
    Row row = {cat(id), tuned_lanes ? "auto" : cat(stage.lanes), tuned_slots ? "auto" : cat(slots)};
    if (report != nullptr) {
      const StageReport& done = report->stages[static_cast<std::size_t>(id.index)];
      if (done.lanes > 0) row[1] = cat(done.lanes);
      row[2] = cat(done.filled, "/", done.slots > 0 ? done.slots : stage.slots);
      row.insert(row.end(),
                 {cat(done.acts), cat(done.elements), seconds_text(done.act_seconds),
                  done.elements == 0 ? std::string("-")
                                     : microseconds_text(done.act_seconds / static_cast<double>(done.elements)),
                  share_text(done, StageActivity::acting), share_text(done, StageActivity::no_input),
                  share_text(done, StageActivity::no_slot), bound_text(done.cpu)});
    }
    row.push_back(tree.ordered ? restoration_text(tree, work, states, report != nullptr) : "-");
    row.push_back(tree.stages_text(id));
    rows.push_back(std::move(row));
  }
  std::string out = table(rows);
  if (report != nullptr) out += report->numbers;
  if (!tree.ordered) out += "no positions: elements are passed on as soon as they are ready (deterministic=False)\n";
  if (tree.bytes > 0)
    out += cat("bytes of elements: ", report == nullptr ? "" : cat(report->bytes, ", "), "at most ", tree.bytes, "\n");
  if (report != nullptr && report->process_bytes > 0)
    out += cat("memory of this process: ", bytes_text(report->process_bytes), "\n");
  if (tree.cpu > 0) out += cat("acts at the same time: at most ", tree.cpu, "\n");
  return out;
}

std::string Dataset::explain() const { return data::explain(stage_tree(node_)); }

}  // namespace karez::data
