// A table of the actors of a data set, for people: what they execute and what they wait for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "karez/data/namespace.h"
#include "karez/data/stages/stage_tree.h"

namespace karez::data {

// What an actor has done since its stream was made.
struct StageReport {
  int filled = 0;             // slots
  int lanes = 0, slots = 0;   // now; 0: those of the graph
  std::int64_t acts = 0;      // except starts and stops
  std::int64_t elements = 0;  // emitted
  double act_seconds = 0;     // the sum of the times of its acts
  // The part of the time of its acts in which they computed, from 0 to 1.
  std::optional<double> cpu = std::nullopt;
  // The time that it spent in each activity.
  std::array<double, plan::stage_activities> seconds = {};
};

// The position of a stream and what its actors have done, by actor.
struct StreamReport {
  std::vector<StageReport> stages = {};
  std::int64_t bytes = 0;          // of elements, if they are limited
  std::int64_t process_bytes = 0;  // of this process, with what decoders and Python use
  StreamStateRef state = nullptr;
  std::string numbers = {};  // why automatic numbers are what they are: lines of text
};

// One line for each actor, the first one closest to the sources. Without a report: what is known before the data set is
// read.
std::string explain(const StageTree& tree, const StreamReport* report = nullptr);

}  // namespace karez::data
