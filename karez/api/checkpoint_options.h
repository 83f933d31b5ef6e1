// Options of World::save and World::load, for checkpoints and for weight files that other programs wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "karez/api/parameter.h"

namespace karez {

// Data that a program stores in a checkpoint together with its variables: the position of the next batch to feed, and
// named strings (such as the epoch or a learning rate).
struct CheckpointNotes {
  std::int64_t position = 0;
  std::map<std::string, std::string> notes = {};
};

// Maps a tensor of a file to a parameter. A '*' in `file` matches any run of characters without a dot, and each '*' in
// `name` is replaced by the characters that the corresponding '*' in `file` matched: {"transformer.h.*.ln_1.weight",
// "block*.norm1.weight"}. A tensor that no rule matches keeps its name; a rule that matches nothing is an error. An
// empty `name` skips the matched tensors.
//
// Shapes are those of PyTorch (Linear [out, in], Conv2d [out, in, kernel, kernel], Embedding [count, width]), so for
// most files it is enough to map names. Set `transposed` for a matrix that the file stores transposed (GPT-2's Conv1D,
// TensorFlow's kernels: [in, out]). If one tensor holds several parameters one after another, each needs a rule: {.file
// = "h.*.attn.c_attn.weight", .name = "block*.attention.key.weight", .transposed = true, .part = 1, .parts = 3, .axis =
// 1} takes the second third along axis 1 of the tensor in the file and transposes it. Together the rules must cover all
// parts; a rule with an empty name skips a part.
struct WeightRule {
  std::string file, name;
  bool transposed = false;
  int part = 0, parts = 1, axis = 0;
};

// Options of World::load: which tensors of a file to load, and under which names.
struct LoadOptions {
  // Load only these parameters, and load them immediately. Usually they are a model's state(), because parameters()
  // does not contain running statistics. A parameter that is not in the file is an error, and so is a tensor in the
  // file that matches none of the parameters. If the list is empty, load everything in the file.
  std::vector<Parameter> parameters = {};
  std::vector<WeightRule> rules = {};
  bool missing = false;  // allow parameters that are not in the file: they keep their current or initial values
  // Ignore tensors in the file that are not in `parameters`. Even then it is an error to ignore running statistics of
  // the modules of these parameters, because a model with the same parameters but other running statistics gives
  // different results. state() contains parameters and running statistics.
  bool extra = false;
  // If `parameters` is empty, these are parameters and buffers that functions will use later: load then reports a wrong
  // shape or name in the file immediately, not at the first use. Otherwise, these are buffers of modules that are not
  // of type nn::Module; they are treated like the buffers of an nn::Module.
  std::vector<Parameter> known = {};
};

}  // namespace karez
