// The tables of a report.
#pragma once

#include <vector>

#include "karez/report/namespace.h"
#include "karez/report/plan_report.h"
#include "karez/report/predictor.h"

namespace karez::report {

std::vector<Section> sections_of(const Plan& plan, const Prediction& launch);
Section actors_of(const Plan& plan,
                  const ById<ActorId, double>& seconds);  // the predicted seconds of an act of each actor

// The critical cycles of launches that run one at a time, and of launches that overlap.
std::vector<Section> critical_cycle_sections(const Plan& plan, const Prediction& launch);

std::string device_text(const Plan& plan, DeviceId device);  // "cpu 0.1"

}  // namespace karez::report
