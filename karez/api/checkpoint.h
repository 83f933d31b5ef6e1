// What World::save and World::load are told: checkpoints, and weights from files of others by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

// What a program wants back beside its variables: the position of its data (the next one it will feed), and texts by
// name (an epoch, a rate that it sets itself).
struct CheckpointNotes {
  std::int64_t position = 0;
  std::map<std::string, std::string> notes = {};
};

// How tensors of a file are called and laid here. A '*' in `file` stands for any run of characters without a dot, and
// each '*' in `name` for what the same one of `file` stands for: {"transformer.h.*.ln_1.weight",
// "block*.norm1.weight"}. What no rule matches keeps its name; a rule that matches nothing is an error. With an empty
// `name` what it matches is left out.
//
// Shapes here are PyTorch's (Linear [out, in], Conv2d [out, in, kernel, kernel], Embedding [count, width]), so most
// files need names alone. A matrix that is kept the other way round (GPT-2's Conv1D, TensorFlow's kernels: [in, out])
// is `transposed`. Where one tensor holds several parameters one behind the other, each has a rule: {.file =
// "h.*.attn.c_attn.weight", .name = "block*.attention.key.weight", .transposed = true, .part = 1, .parts = 3, .axis =
// 1} is the second third along axis 1, as the file has it, then transposed. All parts must be taken, or left out by an
// empty name.
struct WeightRule {
  std::string file, name;
  bool transposed = false;
  int part = 0, parts = 1, axis = 0;
};

// What load takes of a file, and under which names.
struct LoadOptions {
  // Only these, which a model's state() are (its parameters() are without running statistics), and at once: one that
  // the file lacks is an error, and so is a tensor of the file that is none of them. None: everything there is.
  std::vector<Parameter> parameters = {};
  std::vector<WeightRule> rules = {};
  bool missing = false;  // what the file lacks keeps its value, or begins with its initial one
  // With `parameters`: what the file has besides is left out. Running statistics of the modules of these parameters are
  // an error instead, since parameters with other running statistics are another model. state() holds both.
  bool extra = false;
  // Of a load of everything: parameters and buffers that functions will use, so that a shape or a name in the file that
  // is not theirs is told now and not at their first use. With `parameters`: buffers of modules that are no nn::Module,
  // which are an error as those of modules are.
  std::vector<Parameter> known = {};
};

}  // namespace karez
