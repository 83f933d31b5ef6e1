// Makes arrays for the inputs and variables of a plan that runs without its program.
#include "tools/karez/inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "karez/base/hash.h"
#include "karez/base/philox.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/data/array_source.h"
#include "karez/data/npy.h"

namespace karez::tools {
namespace {

struct Input {
  std::string name;
  TensorType type;
};

std::vector<Input> inputs_of(const Plan& plan) {
  std::vector<Input> out;
  for (const Actor& actor : plan.actors) {
    if (actor.body != BodyKind::input || actor.bound.empty()) continue;
    if (std::any_of(out.begin(), out.end(), [&](const Input& existing) { return existing.name == actor.binding; }))
      continue;
    out.push_back({actor.binding, {actor.bound[0].view.dtype, actor.slices[0].ints("shape")}});
  }
  return out;
}

// Returns an array of random floats in [0, max_value), integers from 0 to integers - 1, or bools. Bools are false if
// integers is 1.
HostArray random_values(const TensorType& type, std::uint64_t seed, std::string_view name, double max_value,
                        std::int64_t integers) {
  HostArray out(type);
  const std::uint64_t stream = hash_text(name);
  with_type(type.dtype, [&]<class T>() {
    auto values = out.data<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double unit = unit_double(philox_word(seed, stream, i));
      if constexpr (!std::is_integral_v<T>) values[i] = static_cast<T>(unit * max_value);
      else if constexpr (std::is_same_v<T, bool>) values[i] = integers > 1 && unit < 0.5;
      else values[i] = static_cast<T>(unit * static_cast<double>(integers));
    }
  });
  return out;
}

HostArray make_filled(const TensorType& type, double number, const std::string& subject) {
  HostArray out(type);
  with_type(type.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      require(ErrorKind::type,
              number == std::trunc(number) && number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                  number < static_cast<double>(std::numeric_limits<T>::max()) + 1,
              subject, ": ", name_of(type.dtype), " cannot represent ", number);
    for (T& value : out.data<T>()) value = static_cast<T>(number);
  });
  return out;
}

HostArray parse_input(const Input& input, const std::string& value) {
  const std::string subject = cat("--input ", input.name, "=", value);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) return make_filled(input.type, number, subject);
  HostArray array = read_npy(value);
  require(ErrorKind::type, array.type() == input.type, subject, ": the file has ", array.type(),
          ", but the plan requires ", input.type);
  return array;
}

}  // namespace

Feeds feeds_of(const Plan& plan, const InputOptions& options) {
  const auto inputs = inputs_of(plan);
  std::vector<HostArray> arrays(inputs.size());
  for (const std::string& option : options.values) {
    const std::size_t equals = option.find('=');
    require(equals != std::string::npos && equals > 0, "--input ", option, ": expected NAME=FILE.npy or NAME=NUMBER");
    const std::string name = option.substr(0, equals);
    const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const Input& input) { return input.name == name; });
    if (at == inputs.end())
      fail(ErrorKind::name, "--input ", option, ": plan '", plan.name, "' has no input '", name, "'; ",
           suggest_names(name, inputs, [](const Input& input) { return input.name; }));
    HostArray& array = arrays[static_cast<std::size_t>(at - inputs.begin())];
    require(!array.valid(), "--input ", option, ": '", name, "' is given twice");
    array = parse_input(*at, option.substr(equals + 1));
  }
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!arrays[i].valid())
      arrays[i] = random_values(inputs[i].type, options.seed, inputs[i].name, 1, options.integers);
    feeds.push_back({inputs[i].name, {array_source(arrays[i]), 0}});
  }
  return feeds;
}

std::vector<VariableValue> variables_of(const Plan& plan, std::uint64_t seed) {
  std::vector<VariableValue> out;
  for (const Block& block : plan.blocks) {
    if (block.kind != BlockKind::variable) continue;
    const DType dtype =
        dtype_from(std::string_view(block.layout).substr(0, block.layout.find('[')));  // "f32[10, 784@model]"
    const TensorType type{dtype, {block.bytes / size_of(dtype)}};
    out.push_back({block.name, plan.devices[block.device], random_values(type, seed, block.name, 0.01, 1)});
  }
  return out;
}

}  // namespace karez::tools
