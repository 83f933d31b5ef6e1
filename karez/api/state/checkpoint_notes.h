// Converts between the user's CheckpointNotes and the notes of a checkpoint file, to which Karez adds entries.
#pragma once

#include <string>

#include "karez/api/checkpoint_options.h"
#include "karez/data/weight_files.h"

namespace karez {

data::WeightNotes notes_of(const CheckpointNotes& notes);  // throws for a reserved name
CheckpointNotes notes_from(const data::WeightNotes& notes, const std::string& path);

}  // namespace karez
