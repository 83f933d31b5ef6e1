// Formats a report as one HTML file without scripts or external resources. Drawings scale with the window, because
// coordinates are percentages.
#include <algorithm>
#include <cmath>
#include <set>

#include "karez/base/text.h"
#include "karez/report/plan_report.h"
#include "karez/report/table.h"

namespace karez::report {
namespace {

constexpr int row_height = 18, memory_height = 260;
constexpr std::size_t max_rows = 2000;

const char* const style = R"(
:root { color-scheme: light dark; --back: #ffffff; --text: #1c2128; --faint: #59636e; --line: #d5dae1; --panel: #f5f7f9;
  --compute: #4269d0; --collective: #d9731a; --input: #2f8f5b; --fetch: #9350c7; --state: #7d8590;
  --variable: #7d8590; --constant: #a7adb5; --register: #4269d0; --scratch: #d9a514; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --text: #e4e8ec; --faint: #9aa4ae; --line: #333b44; --panel: #1c2229;
  --compute: #6d8ff0; --collective: #f08b3a; --input: #45b67b; --fetch: #b57ae6; --state: #8b949e;
  --variable: #6b747e; --constant: #4f5760; --register: #6d8ff0; --scratch: #d9b444; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 110rem; padding: 1rem; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1rem 0 .3rem; }
p { margin: .3rem 0; color: var(--faint); }
.figures { display: flex; flex-wrap: wrap; gap: .6rem; margin: .8rem 0; }
.figures div { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; }
.figures b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.lane { display: grid; grid-template-columns: 9rem minmax(0, 1fr); align-items: center; border-bottom: 1px solid var(--line); }
.lane > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding-right: .5rem; color: var(--faint); }
svg { display: block; width: 100%; background: var(--panel); }
.axis { background: none; }
.axis text { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--line); }
rect.wide { stroke: var(--back); stroke-width: .5; }
rect:hover { stroke: var(--text); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0 .6rem; color: var(--faint); }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em; }
.scroll { overflow: auto; max-height: 32rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .9em; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; text-align: left; white-space: nowrap; }
th { position: sticky; top: 0; background: var(--panel); }
tr:nth-child(even) td { background: var(--panel); }
td.number { text-align: right; }
summary { cursor: pointer; font-size: 1.05rem; font-weight: 600; margin: 1.8rem 0 .5rem; }
@media (max-width: 40rem) { .lane { grid-template-columns: minmax(0, 1fr); } }
)";

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? '?' : c;
    }
  return out;
}

std::string percent_of(double value, double full) { return fixed(full > 0 ? 100 * value / full : 0, 3) + "%"; }

// Thin rectangles have no border, because it would hide them.
std::string rectangle(const std::string& kind, const std::string& x, const std::string& width, const std::string& y,
                      const std::string& height, const std::string& label) {
  return cat("<rect", std::stod(width) > 0.4 && std::stod(height) > 2 ? " class=\"wide\"" : "", " style=\"fill:var(--",
             kind, ")\" x=\"", x, "\" width=\"", width, "\" y=\"", y, "\" height=\"", height, "\"><title>",
             escape_html(label), "</title></rect>\n");
}

std::string legend(const std::set<std::string>& kinds) {
  return cat("<div class=\"legend\">",
             join(kinds, "",
                  [](const std::string& kind) {
                    return cat("<span><i style=\"background:var(--", kind, ")\"></i>", kind, "</span>");
                  }),
             "</div>\n");
}

// Returns 1, 2 or 5 times a power of ten, so that the axis has four to ten steps.
double axis_step(double full) {
  double step = std::pow(10, std::floor(std::log10(full / 4)));
  for (double factor : {5.0, 2.0})
    if (full / (factor * step) >= 4) return factor * step;
  return step;
}

std::string time_axis(double seconds) {
  if (seconds <= 0) return "";
  std::string marks;
  const double step = axis_step(seconds);
  for (int i = 0; i * step <= seconds * 0.96; ++i)
    marks += cat("<text x=\"", percent_of(i * step, seconds), "\" y=\"12\">",
                 fixed(i * step * 1e6, step < 1e-6 ? 1 : 0), i == 0 ? " us" : "", "</text>");
  return cat("<div class=\"lane\"><span></span><svg class=\"axis\" height=\"16\">", marks, "</svg></div>\n");
}

// Merges neighbouring spans of one kind that are too narrow to be visible.
std::vector<Span> merge_narrow_spans(const std::vector<Span>& spans, double narrow) {
  std::vector<Span> out;
  std::vector<int> counts;
  for (const Span& span : spans) {
    const bool is_narrow = span.end - span.begin < narrow;
    if (is_narrow && !out.empty() && out.back().kind == span.kind && out.back().end - out.back().begin < 4 * narrow &&
        span.begin - out.back().end < narrow && (counts.back() > 1 || out.back().end - out.back().begin < narrow)) {
      out.back().end = std::max(out.back().end, span.end);
      out.back().label = cat(++counts.back(), " acts, the last: ", span.label);
    } else {
      out.push_back(span), counts.push_back(1);
    }
  }
  return out;
}

// Acts that overlap in time are drawn in different rows.
std::string lane_text(const Lane& lane, const std::string& name, double seconds) {
  std::vector<double> free;  // by row: the time from which the row is free
  std::string shapes;
  for (const Span& span : merge_narrow_spans(lane.spans, seconds / 1500)) {
    auto row = std::find_if(free.begin(), free.end(), [&](double free_time) { return free_time <= span.begin; });
    if (row == free.end()) row = free.insert(free.end(), 0);
    *row = span.end;
    shapes += rectangle(span.kind, percent_of(span.begin, seconds),
                        percent_of(std::max(span.end - span.begin, seconds / 3000), seconds),
                        cat(1 + (row - free.begin()) * row_height), cat(row_height - 2), span.label);
  }
  return cat("<div class=\"lane\"><span>", escape_html(name), "</span><svg role=\"img\" aria-label=\"",
             escape_html(name), "\" height=\"", free.size() * row_height, "\">\n", shapes, "</svg></div>\n");
}

std::string timeline(const PlanReport& report) {
  std::set<std::string> kinds;
  std::string lanes;
  for (const Lane& lane : report.lanes) {
    for (const Span& span : lane.spans) kinds.insert(span.kind);
    lanes += lane_text(lane, cat(report.device_names[static_cast<std::size_t>(lane.device.index)], " ", lane.name),
                       report.seconds);
  }
  return cat("<section id=\"timeline\"><h2>One launch, as predicted", escape_html(report.caution), "</h2>\n",
             legend(kinds), time_axis(report.seconds), lanes, "</section>\n");
}

std::string memory(const PlanReport& report) {
  std::set<std::string> kinds;
  std::string out;
  for (DeviceId d : report.memory.ids()) {
    const MemoryTimeline& memory = report.memory[d];
    if (memory.bytes == 0) continue;
    const auto full = static_cast<double>(memory.bytes);
    std::string shapes;
    for (const MemorySpan& span : memory.spans) {
      kinds.insert(span.kind);
      const auto bytes = static_cast<double>(span.bytes);
      const double top = full - static_cast<double>(span.offset) - bytes;
      shapes += rectangle(span.kind, percent_of(span.begin, report.seconds),
                          percent_of(std::max(span.end - span.begin, report.seconds / 3000), report.seconds),
                          percent_of(top, full), percent_of(bytes, full), span.label);
    }
    const std::string name =
        cat(report.device_names[static_cast<std::size_t>(d.index)], ", ", bytes_text(memory.bytes));
    out += cat(
        "<h3>", escape_html(name),
        "</h3>\n<div class=\"lane\"><span>offsets, 0 at the bottom</span><svg role=\"img\" aria-label=\"memory of ",
        escape_html(name), "\" height=\"", memory_height, "\">\n", shapes, "</svg></div>\n", time_axis(report.seconds));
    if (memory.omitted > 0)
      out += cat("<p>", memory.omitted, " more, each smaller than those drawn, are omitted.</p>\n");
  }
  return cat("<section id=\"memory\"><h2>Memory during a launch</h2>\n", legend(kinds), out, "</section>\n");
}

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.-+% ") == std::string::npos;
}

std::string table_text(const Section& section) {
  if (section.rows.empty()) return "";
  auto row_text = [](const std::vector<std::string>& row, std::string_view tag) {
    return cat("<tr>",
               join(row, "",
                    [&](const std::string& cell) {
                      return cat("<", tag, tag == "td" && is_number(cell) ? " class=\"number\"" : "", ">",
                                 escape_html(cell), "</", tag, ">");
                    }),
               "</tr>\n");
  };
  std::string out = cat("<div class=\"scroll\"><table><thead>", row_text(section.rows[0], "th"), "</thead><tbody>\n");
  const std::size_t row_count = std::min(section.rows.size() - 1, max_rows);
  for (std::size_t r = 1; r <= row_count; ++r) out += row_text(section.rows[r], "td");
  out += "</tbody></table></div>\n";
  if (row_count + 1 < section.rows.size())
    out += cat("<p>... and ", section.rows.size() - 1 - row_count, " more.</p>\n");
  return out + (section.note.empty() ? "" : cat("<p>", escape_html(section.note), "</p>\n"));
}

std::string figures(const PlanReport& report) {
  std::int64_t max_bytes = 0;
  for (const MemoryTimeline& memory : report.memory) max_bytes = std::max(max_bytes, memory.bytes);
  auto figure = [](const std::string& value, const char* name) {
    return cat("<div><b>", value, "</b>", name, "</div>");
  };
  return cat(
      "<div class=\"figures\">",
      figure(microseconds(report.seconds) + " us", cat("a launch, predicted", escape_html(report.caution)).c_str()),
      figure(cat(report.device_names.size()), "devices"),
      figure(bytes_text(max_bytes), "peak memory of the fullest device"),
      report.data_bytes == 0 ? "" : figure(bytes_text(report.data_bytes), "memory of data sets on this rank"),
      figure(bytes_text(report.transfer_bytes), "between devices per launch"), "</div>\n");
}

}  // namespace

std::string html_of(const PlanReport& report) {
  const std::string title = cat("Plan ", report.name);
  std::string out =
      cat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", escape_html(title),
          "</title>\n<style>", style, "</style></head>\n<body>\n<h1>", escape_html(title), "</h1>\n");
  for (const std::string& line : split(trim(report.header), '\n')) out += cat("<p>", escape_html(line), "</p>\n");
  out += figures(report) + timeline(report) + memory(report);
  for (const Section& section : report.sections)
    out += cat("<section><h2>", escape_html(section.title), "</h2>\n", table_text(section), "</section>\n");
  out += cat("<details id=\"actors\"><summary>", escape_html(report.actors.title), "</summary>\n",
             table_text(report.actors), "</details>\n");
  return out +
         cat("<p>Times are predicted, not measured. Costs: ", escape_html(report.costs), "</p>\n</body></html>\n");
}

}  // namespace karez::report
