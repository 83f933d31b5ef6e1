// Data sets of images in folders, one folder for each class.
#pragma once

#include <string>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/formats.h"
#include "karez/data/images.h"
#include "karez/data/namespace.h"

namespace karez::data {

struct ImageFolderOptions {
  bool decode = true;  // otherwise the elements contain the bytes of the files, u8[n]
  DecodeOptions decoding = {};
  // Whether a record whose file is damaged is skipped (skipped_element), which leaves the other records at their places
  // in batches. Otherwise it is an error.
  bool skip_errors = false;
  SkipReport report = nullptr;  // of skipped records, at the end of an epoch; by default, logs a warning
};

// The elements (image u8[height, width, channels], label i64) of the files below `path` whose names end with .jpg,
// .jpeg, .png or .webp. A folder in `path` is a class; its label is its number in the order of their names. The files
// are listed once, here, in the order of their classes and paths.
Dataset from_image_folder(const std::string& path, const ImageFolderOptions& options = {});
// The names of the classes, in the order of their labels.
std::vector<std::string> image_folder_classes(const std::string& path);

}  // namespace karez::data
