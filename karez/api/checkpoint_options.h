// Options of World::save and World::load, for checkpoints and for weight files of other programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "karez/api/parameter.h"

namespace karez {

// Data that a program stores with its variables: the position in its data (the next batch to feed), and texts by name
// (such as the epoch or a learning rate).
struct CheckpointNotes {
  std::int64_t position = 0;
  std::map<std::string, std::string> notes = {};
};

// Maps a tensor of a file to a parameter. A '*' in `file` matches any run of characters without a dot, and each '*' in
// `name` is replaced by the text that the corresponding '*' of `file` matched: {"transformer.h.*.ln_1.weight",
// "block*.norm1.weight"}. A tensor that no rule matches keeps its name; a rule that matches nothing is an error. An
// empty `name` skips the matched tensors.
//
// Shapes are those of PyTorch (Linear [out, in], Conv2d [out, in, kernel, kernel], Embedding [count, width]), so most
// files need no more than names. Set `transposed` for a matrix that the file stores transposed (GPT-2's Conv1D,
// TensorFlow's kernels: [in, out]). If one tensor holds several parameters one after another, each needs a rule: {.file
// = "h.*.attn.c_attn.weight", .name = "block*.attention.key.weight", .transposed = true, .part = 1, .parts = 3, .axis =
// 1} takes the second third along axis 1 of the tensor in the file and transposes it. Rules must use all parts; a rule
// with an empty name skips a part.
struct WeightRule {
  std::string file, name;
  bool transposed = false;
  int part = 0, parts = 1, axis = 0;
};

// Options of World::load: the tensors of a file to load, and their names.
struct LoadOptions {
  // Load only these parameters, usually a model's state() (parameters() does not contain running statistics), and load
  // them immediately: a parameter that is not in the file is an error, and so is a tensor of the file that matches none
  // of them. If empty, load everything in the file.
  std::vector<Parameter> parameters = {};
  std::vector<WeightRule> rules = {};
  bool missing = false;  // allow parameters that are not in the file: they keep their current or initial values
  // Ignore tensors of the file that are not in `parameters`. Running statistics of the modules of these parameters are
  // an error even then, because the same parameters with other running statistics are a different model. state()
  // contains both.
  bool extra = false;
  // If `parameters` is empty: parameters and buffers that functions will use later, so that a wrong shape or name in
  // the file is reported by load instead of at their first use. Otherwise: buffers of modules that are not an
  // nn::Module, which are treated as those of nn::Module.
  std::vector<Parameter> known = {};
};

}  // namespace karez
