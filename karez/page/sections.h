// The tables of a page.
#pragma once

#include <vector>

#include "karez/page/namespace.h"
#include "karez/page/page.h"
#include "karez/page/predictor.h"

namespace karez::page {

std::vector<Section> sections_of(const Plan& plan, const Prediction& launch);
Section actors_of(const Plan& plan,
                  const ById<ActorId, double>& seconds);  // with the predicted seconds of an act, by actor

// The critical cycles of launches that run one at a time, and of launches that overlap.
std::vector<Section> critical_cycle_sections(const Plan& plan, const Prediction& launch);

std::string device_text(const Plan& plan, DeviceId device);  // "cpu 0.1"

}  // namespace karez::page
