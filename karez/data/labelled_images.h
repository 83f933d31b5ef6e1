// Labelled images in IDX files, the format of MNIST, as a data set.
#pragma once

#include <string>
#include <string_view>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"

namespace karez::data {

struct LabelledImageOptions {
  int classes = 10;               // labels must be below this number
  float mean = 0, deviation = 1;  // a pixel becomes (grey / 255 - mean) / deviation
};

// The elements (image f32[1, h, w], label i32[]) of the files "<part>-images-idx3-ubyte" and
// "<part>-labels-idx1-ubyte" in a directory, each with or without ".gz"; `part` is "train" or "t10k". Reads the files
// immediately and keeps their bytes in memory. Errors name the file and the defect.
Dataset from_labelled_images(const std::string& directory, std::string_view part,
                             const LabelledImageOptions& options = {});

}  // namespace karez::data
