// The tables of a page.
#pragma once

#include <vector>

#include "page/page.h"
#include "page/predict.h"

namespace karez::page {

// With the predicted seconds of an act, by actor.
std::vector<Section> sections_of(const Plan& plan, const Predictor& predictor, const ById<ActorId, double>& seconds);
Section actors_of(const Plan& plan, const ById<ActorId, double>& seconds);

std::string device_text(const Plan& plan, DeviceId device);  // "cpu 0.1"

}  // namespace karez::page
