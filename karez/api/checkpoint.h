// Options of World::save and World::load: checkpoints, and weights by name from other programs' files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

// Data that a program stores with its variables: the position of its data (the next batch it will feed), and texts by
// name (such as an epoch or a rate that it sets itself).
struct CheckpointNotes {
  std::int64_t position = 0;
  std::map<std::string, std::string> notes = {};
};

// Maps a tensor of a file to a parameter. A '*' in `file` matches any run of characters without a dot, and each '*' in
// `name` is replaced by the text that the corresponding '*' of `file` matched: {"transformer.h.*.ln_1.weight",
// "block*.norm1.weight"}. A tensor that no rule matches keeps its name; a rule that matches nothing is an error. An
// empty `name` skips the matched tensors.
//
// Shapes are PyTorch's (Linear [out, in], Conv2d [out, in, kernel, kernel], Embedding [count, width]), so most files
// only need names. Set `transposed` for a matrix that the file stores the other way round (GPT-2's Conv1D, TensorFlow's
// kernels: [in, out]). If one tensor holds several parameters one after the other, each needs a rule: {.file =
// "h.*.attn.c_attn.weight", .name = "block*.attention.key.weight", .transposed = true, .part = 1, .parts = 3, .axis =
// 1} is the second third along axis 1 of the tensor in the file, then transposed. Rules must use all parts, or skip one
// by an empty name.
struct WeightRule {
  std::string file, name;
  bool transposed = false;
  int part = 0, parts = 1, axis = 0;
};

// Which tensors of a file load uses, and under which names.
struct LoadOptions {
  // Load only these, usually a model's state() (its parameters() lack running statistics), and load them immediately: a
  // parameter that the file lacks is an error, and so is a tensor of the file that matches none of them. Empty: load
  // everything in the file.
  std::vector<Parameter> parameters = {};
  std::vector<WeightRule> rules = {};
  bool missing = false;  // a tensor that the file lacks keeps its value, or starts with its initial one
  // With `parameters`: further tensors of the file are ignored. Running statistics of the modules of these parameters
  // are an error instead, since parameters with other running statistics are another model. state() contains both.
  bool extra = false;
  // When everything is loaded: parameters and buffers that functions will use later, so that a wrong shape or name in
  // the file is reported at the load instead of at their first use. With `parameters`: buffers of modules that are no
  // nn::Module, which are treated as those of nn::Module.
  std::vector<Parameter> known = {};
};

}  // namespace karez
