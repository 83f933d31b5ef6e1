// The data of a report on a plan: tables, the predicted timeline of one launch, and memory use over time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/sbp/cost.h"

namespace karez::report {

struct Section {
  std::string title;                           // a line with totals
  std::vector<std::vector<std::string>> rows;  // the first row has the headings; empty if there is nothing to list
  std::string note;
};

// A span of time: an act in a lane of the timeline.
struct Span {
  double begin = 0, end = 0;  // seconds
  std::string kind;           // "compute", "collective", "input", "fetch", "state"
  std::string label;          // "a12 compute.5, act 0: 12.3 us at net.cc:12"
};

struct Lane {
  DeviceId device;
  std::string name;  // name of the stream
  std::vector<Span> spans;
};

// A range of a device's memory that is in use during an interval. Blocks are stacked, so `offset` counts from the first
// byte of the device's first block.
struct MemorySpan {
  double begin = 0, end = 0;
  std::int64_t offset = 0, bytes = 0;
  std::string kind;   // "variable", "constant", "register", "scratch"
  std::string label;  // "r12 slot 0 of 2: f32[64, 256], 64.00 KiB at 1024 of b3"
};

struct MemoryTimeline {
  std::int64_t bytes = 0;    // total size of the device's blocks
  std::int64_t omitted = 0;  // number of spans that are not listed because they are smaller than the listed ones
  std::vector<MemorySpan> spans;
};

struct PlanReport {
  std::string name;     // name of the plan
  std::string header;   // two lines of counts
  double seconds = 0;   // predicted duration of one launch
  std::string costs;    // the origin of the cost table
  std::string caution;  // appended to predicted values; empty if the costs were measured or supplied by the user
  std::int64_t data_bytes = 0;            // of data sets on this rank
  std::int64_t transfer_bytes = 0;        // bytes between devices per launch
  std::vector<std::string> device_names;  // for example "cpu 0.1"
  std::vector<Section> sections;          // transfers, memory by module, source lines, and the critical cycles of
                                          // sequential and of overlapping launches
  Section actors;                         // all actors
  std::vector<Lane> lanes;                // one lane for each stream that has acts, ordered by device
  ById<DeviceId, MemoryTimeline> memory;
};

// Builds the report with times predicted from `costs`. The second overload uses the cost table in the plan. The plan
// must be valid.
PlanReport make_report(const Plan& plan, const CostTable& costs);
PlanReport make_report(const Plan& plan);

// Formats a section as text with at most `max_rows` rows. A last line gives the number of omitted rows and the
// command-line option that shows them: "... and 3 more (--rows)".
std::string text_of(const Section& section, std::int64_t max_rows, std::string_view option_name = "");

// Returns the counts, memory and transfers of `plan::summary`, then the origin of the costs, `extra_lines` (complete
// lines), and the critical cycles.
std::string summary_of(const Plan& plan, std::string_view extra_lines = "");

// Formats the report as a self-contained HTML document, without scripts or network access. Long tables and drawings
// with very many parts are truncated, with a note.
std::string html_of(const PlanReport& report);

}  // namespace karez::report
