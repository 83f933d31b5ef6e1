// Modules: named parameters in a tree, and the usual layers. A model is a struct of them and does not mention devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/functions.h"

namespace karez::nn {

// A node of the tree. A root has no parent; a sub-module gets its parent and its name, which give its path
// ("block.fc1") and those of its parameters ("block.fc1.weight"). All modules of a tree have the root's dtype.
class Module {
 public:
  Module() : Module("") {}
  explicit Module(DType dtype) : Module("", dtype) {}
  // A named root: its name is the first part of every path.
  explicit Module(std::string name, DType dtype = DType::f32);
  Module(Module& parent, const std::string& name);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const { return path_; }
  DType dtype() const;
  std::vector<Parameter> parameters() const;  // of this module and those below it, in order of creation
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  // A parameter or buffer by its full name; an unknown name is an error that lists the existing ones.
  Parameter parameter(std::string_view path) const;
  // Untrained state (running statistics), in the same order; state(): parameters and buffers, the contents of a weight
  // file of the model.
  std::vector<Parameter> buffers() const;
  std::vector<Parameter> state() const;

  // A new parameter of this module, for user-defined layers. make_buffer makes state that optimisers do not update.
  Parameter make_parameter(const std::string& name, Shape shape, Initialiser init);
  Parameter make_buffer(const std::string& name, TensorType type, Initialiser init);

 protected:
  ~Module() = default;  // modules are owned by value or by their own type

 private:
  struct Tree;
  Parameter added(std::vector<Parameter>& list, const std::string& name, TensorType type, Initialiser init);
  std::vector<Parameter> below(const std::vector<Parameter>& list) const;
  std::shared_ptr<Tree> tree_;
  std::string path_;
};

// x [..., in] -> [..., out]: x times the transpose of weight [out, in], plus bias [out]. Initial weights are PyTorch's:
// uniform within 1 / sqrt(in).
struct Linear : Module {
  Linear(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, bool with_bias = true);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  bool has_bias;
};

// The shape of a convolution.
struct ConvShape {
  std::int64_t stride = 1, padding = 0;
  bool bias = true;
};
// x [n, in, h, w] -> [n, out, p, q]; weight [out, in, kernel, kernel], bias [out], uniform within 1 / sqrt(in * kernel
// * kernel).
struct Conv2d : Module {
  Conv2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
         ConvShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  ConvShape shape;
};

// x [n, in, l] -> [n, out, m]; weight [out, in, kernel], bias [out], uniform within 1 / sqrt(in * kernel).
struct Conv1d : Module {
  Conv1d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
         ConvShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  ConvShape shape;
};

// The maximum of each window, [n, c, h, w].
struct MaxPool2d : Module {
  MaxPool2d(Module& parent, const std::string& name, std::int64_t kernel, std::int64_t stride = 0,
            std::int64_t padding = 0);
  Tensor operator()(Term x) const;
  std::int64_t kernel, stride, padding;
};

// The mean of each window, [n, c, h, w].
struct AvgPool2d : Module {
  AvgPool2d(Module& parent, const std::string& name, std::int64_t kernel, std::int64_t stride = 0,
            std::int64_t padding = 0);
  Tensor operator()(Term x) const;
  std::int64_t kernel, stride, padding;
};

// Active if the function is compiled for training (FunctionOptions::train); modules have no training mode of their own.
struct Dropout : Module {
  Dropout(Module& parent, const std::string& name, double p);
  Tensor operator()(Term x) const;
  double p;
};

// max(x, 0).
struct ReLU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// tanh(x).
struct Tanh : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// x times the cumulative normal distribution function at x.
struct GELU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// x times sigmoid(x).
struct SiLU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Rows of weight [count, width] by index, of any shape [i...] -> [i..., width]. Initial weights are PyTorch's: normal
// with deviation 1. Row `padding` (negative: from the end) is initially zero and gets no gradient.
struct Embedding : Module {
  Embedding(Module& parent, const std::string& name, std::int64_t count, std::int64_t width,
            std::optional<std::int64_t> padding = {});
  Tensor operator()(Term index) const;
  Parameter weight;
  std::optional<std::int64_t> padding;
};

// Over the last dimensions, with the sizes `shape`; weight (initially 1) and bias (initially 0) have that shape.
struct LayerNorm : Module {
  LayerNorm(Module& parent, const std::string& name, Shape shape, double eps = 1e-5);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  double eps;
};
// x divided by the root of its mean square over the last dimensions, times a weight; eps as in rms_norm.
struct RMSNorm : Module {
  RMSNorm(Module& parent, const std::string& name, Shape shape, std::optional<double> eps = {});
  Tensor operator()(Term x) const;
  Parameter weight;
  std::optional<double> eps;
};

// Options of batch norm.
struct BatchNormOptions {
  double momentum = 0.1, eps = 1e-5;
};
// By channel of x [n, c, ...] (as PyTorch's BatchNorm1d to 3d, with the same names of its state). In training it uses
// mean and variance s of the whole batch and updates running statistics r = (1 - momentum) r + momentum s, with the
// unbiased variance; otherwise it uses the running ones. Each micro-batch is normalised by its own mean and variance
// and then updates the running statistics, as when PyTorch accumulates gradients.
struct BatchNorm : Module {
  BatchNorm(Module& parent, const std::string& name, std::int64_t channels, BatchNormOptions options = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;  // initially 1 and 0
  Parameter running_mean, running_var, num_batches_tracked;
  BatchNormOptions options;
};
// By groups of channels of x [n, c, ...]; weight [c] (initially 1) and bias (initially 0).
struct GroupNorm : Module {
  GroupNorm(Module& parent, const std::string& name, std::int64_t groups, std::int64_t channels, double eps = 1e-5);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  std::int64_t groups;
  double eps;
};

// Heads and positions of an attention layer.
struct AttentionShape {
  std::int64_t kv_heads = 0;  // grouped queries: the number of heads of keys and values; 0: that of queries
  bool causal = false;
  bool rotary = false;  // rotate queries and keys by their positions, pairs i and i + d / 2
  double rotary_base = 10000;
  double dropout = 0;  // of the output
  bool bias = true;
};
// Self-attention of x [n, t, width] -> [n, t, width]; heads divides width. Linear layers "query", "key", "value",
// "out". Splitting heads, by rows of the first three and columns of the last, is the usual tensor parallelism.
struct MultiHeadAttention : Module {
  MultiHeadAttention(Module& parent, const std::string& name, std::int64_t width, std::int64_t heads,
                     AttentionShape shape = {});
  Tensor operator()(Term x) const;
  Tensor operator()(Term x, Term mask) const;  // as in scaled_dot_product_attention
  std::int64_t heads;
  AttentionShape shape;
  Linear query, key, value, out;

 private:
  Tensor attend(const Term& x, const Term* mask) const;
};

// Merges all dimensions but the first.
struct Flatten : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Layers that run one after the other, named "0", "1", ...: Sequential(net, "body").add<Linear>(784, 100).add<ReLU>().
class Sequential : public Module {
 public:
  using Module::Module;

  template <class Layer, class... Arguments> Sequential& add(Arguments&&... arguments) & {
    auto layer = std::make_shared<Layer>(*this, std::to_string(layers_.size()), std::forward<Arguments>(arguments)...);
    layers_.push_back([layer](Term x) { return (*layer)(std::move(x)); });
    return *this;
  }
  Tensor operator()(Term x) const;

 private:
  std::vector<std::function<Tensor(Term)>> layers_;
};

}  // namespace karez::nn
