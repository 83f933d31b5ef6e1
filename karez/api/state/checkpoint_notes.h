// Converts the notes of a checkpoint file: those of the user, and those that Karez adds.
#pragma once

#include <string>

#include "karez/api/checkpoint_options.h"
#include "karez/data/weight_files.h"

namespace karez {

data::WeightNotes notes_of(const CheckpointNotes& notes);  // an error for a reserved name
CheckpointNotes notes_from(const data::WeightNotes& notes, const std::string& path);

}  // namespace karez
