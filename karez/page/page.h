// What people are shown of a plan: tables, the launch as the simulator foresees it, and the bytes over its time. As
// data; as text and as HTML elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/page/namespace.h"
#include "karez/plan/plan.h"
#include "karez/sbp/cost.h"

namespace karez::page {

struct Section {
  std::string title;                           // a sentence with the sums
  std::vector<std::vector<std::string>> rows;  // the heads first; none where there is nothing to list
  std::string note;
};

// Something that lasts: an act in a lane of the timeline.
struct Span {
  double begin = 0, end = 0;  // seconds
  std::string kind;           // "compute", "collective", "input", "fetch", "state"
  std::string label;          // "a12 compute.5, act 0: 12.3 us at net.cc:12"
};

struct Lane {
  DeviceId device;
  std::string name;  // of the stream
  std::vector<Span> spans;
};

// Bytes of a device in use for a time. Blocks stand one over the other, so `offset` counts from the first byte of the
// device's first block.
struct MemorySpan {
  double begin = 0, end = 0;
  std::int64_t offset = 0, bytes = 0;
  std::string kind;   // of its use: "variable", "constant", "register", "scratch", "external"
  std::string label;  // "r12 slot 0 of 2: f32[64, 256], 64.00 KiB at 1024 of b3"
};

struct MemoryTimeline {
  std::int64_t bytes = 0;    // of all the device's blocks
  std::int64_t omitted = 0;  // how many are not listed, each smaller than those that are
  std::vector<MemorySpan> spans;
};

struct Page {
  std::string name;                       // the plan's
  std::string header;                     // two lines of counts
  double seconds = 0;                     // of a launch, as predicted
  std::string costs;                      // by which table: where its numbers come from
  std::string caution;                    // is printed next to predicted numbers; "": costs are measured or given
  std::int64_t transfer_bytes = 0;        // bytes between devices a launch
  std::vector<std::string> device_names;  // of the devices: "cpu 0.1"
  std::vector<Section>
      sections;  // what crosses, memory by module, source lines, the critical cycle, what holds up overlapping launches
  Section actors;           // all of them
  std::vector<Lane> lanes;  // those in which something acts, device by device
  ById<DeviceId, MemoryTimeline> memory;
};

// Times are predicted by the cost table; without one by the plan's own. The plan must be sound.
Page page_of(const Plan& plan, const CostTable& costs);
Page page_of(const Plan& plan);

// As text; rows beyond the most are counted, not shown: "... and 3 more (--rows)" with `how` "--rows".
std::string text_of(const Section& section, std::int64_t most, std::string_view how = "");

// The counts, memory and transfers of `plan::summary`, then where the costs come from (after them `beside`, whole
// lines), and what sets the pace.
std::string summary_of(const Plan& plan, std::string_view extra_lines = "");

// A document that asks for nothing beyond itself: no script, no network. Long tables and drawings with very many parts
// are cut, and say so.
std::string html_of(const Page& page);

}  // namespace karez::page
