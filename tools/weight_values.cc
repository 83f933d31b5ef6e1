// Loads a weight file, writes each tensor as an .npy file and saves all tensors again, for comparison by another
// program.
#include <fstream>
#include <iostream>

#include "karez/base/text.h"
#include "karez/data/weight_files.h"
#include "karez/karez.h"
#include "tools/npy_out.h"

namespace karez::tools {
namespace {

// Loads the tensors of the file as parameters of a world, runs a function of them, and saves them.
void round_trip(const std::string& input, const std::string& folder, const std::string& output) {
  const WeightFiles file(input);
  World world({.devices = 2});
  std::vector<Parameter> parameters;
  for (const WeightEntry& entry : file.entries())
    for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8})
      if (is_representable(entry, dtype)) {
        parameters.emplace_back(entry.name, TensorType{dtype, entry.shape}, constant_init(0));
        break;
      }
  world.load(input);
  auto read_all = compile(world.mesh("data=2"), [&] {
    std::vector<Tensor> out;
    for (const Parameter& parameter : parameters) out.push_back(reshape(parameter, parameter.shape()));
    return out;
  });
  const Future values = read_all();
  for (std::size_t i = 0; i < values.size(); ++i) write_npy(cat(folder, "/", i, ".npy"), values.value(i).read());
  world.save(output, {.position = 12, .notes = {{"by", "weight_values"}}});
}

}  // namespace
}  // namespace karez::tools

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: weight_values IN.safetensors FOLDER OUT.safetensors\n";
    return 64;
  }
  try {
    karez::tools::round_trip(argv[1], argv[2], argv[3]);
  } catch (const karez::Error& error) {
    std::cerr << "weight_values: " << error.what() << "\n";
    return karez::exit_code(error.kind);
  }
  return 0;
}
