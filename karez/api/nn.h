// Modules, which form a tree of named parameters, and the usual layers. A model is a struct of modules and does not
// mention devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/functions.h"

namespace karez::nn {

// A node of the module tree. A root has no parent. A sub-module is constructed with its parent and its name, which
// determine its path ("block.fc1") and the names of its parameters ("block.fc1.weight"). All modules of a tree have the
// dtype of the root.
class Module {
 public:
  Module() : Module("") {}
  explicit Module(DType dtype) : Module("", dtype) {}
  // Makes a named root, whose name is the first part of every path.
  explicit Module(std::string name, DType dtype = DType::f32);
  Module(Module& parent, const std::string& name);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const { return path_; }
  DType dtype() const;
  std::vector<Parameter> parameters() const;  // of this module and its sub-modules, in order of creation
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  // Returns a parameter or buffer by its full name; an unknown name is an error that lists the existing names.
  Parameter parameter(std::string_view path) const;
  std::vector<Parameter> buffers() const;  // untrained state (running statistics), in order of creation
  std::vector<Parameter> state() const;    // parameters and buffers: what a weight file of the model contains

  // Makes a parameter of this module, for user-defined layers. make_buffer makes state that optimisers do not update.
  Parameter make_parameter(const std::string& name, Shape shape, Initialiser init);
  Parameter make_buffer(const std::string& name, TensorType type, Initialiser init);

 protected:
  ~Module() = default;  // protected, because a module is never deleted through a pointer to Module

 private:
  struct Tree;
  Parameter add(std::vector<Parameter>& list, const std::string& name, TensorType type, Initialiser init);
  std::vector<Parameter> in_subtree(
      const std::vector<Parameter>& list) const;  // those of this module and its sub-modules
  std::shared_ptr<Tree> tree_;
  std::string path_;
};

// Multiplies x [..., in] by the transpose of weight [out, in] and adds bias [out]. As in PyTorch, initial values are
// uniform in [-b, b) with b = 1 / sqrt(in).
struct Linear : Module {
  Linear(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, bool with_bias = true);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  bool has_bias;
};

// Options of a convolution layer.
struct ConvShape {
  std::int64_t stride = 1, padding = 0;
  bool bias = true;
};
// Convolution x [n, in, h, w] -> [n, out, p, q]; weight [out, in, kernel, kernel], bias [out]. Initial values are
// uniform in [-b, b) with b = 1 / sqrt(in * kernel * kernel).
struct Conv2d : Module {
  Conv2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
         ConvShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  ConvShape shape;
};

// Convolution x [n, in, l] -> [n, out, m]; weight [out, in, kernel], bias [out]. Initial values are uniform in [-b, b)
// with b = 1 / sqrt(in * kernel).
struct Conv1d : Module {
  Conv1d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
         ConvShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  ConvShape shape;
};

// Returns the maximum of each window of x [n, c, h, w]. Stride 0 means a stride equal to the size of the kernel.
struct MaxPool2d : Module {
  MaxPool2d(Module& parent, const std::string& name, std::int64_t kernel, std::int64_t stride = 0,
            std::int64_t padding = 0);
  Tensor operator()(Term x) const;
  std::int64_t kernel, stride, padding;
};

// Returns the mean of each window of x [n, c, h, w]. Stride 0 means a stride equal to the size of the kernel.
struct AvgPool2d : Module {
  AvgPool2d(Module& parent, const std::string& name, std::int64_t kernel, std::int64_t stride = 0,
            std::int64_t padding = 0);
  Tensor operator()(Term x) const;
  std::int64_t kernel, stride, padding;
};

// Dropout, active if the function is compiled for training (FunctionOptions::train); modules have no training mode.
struct Dropout : Module {
  Dropout(Module& parent, const std::string& name, double p);
  Tensor operator()(Term x) const;
  double p;
};

// Computes max(x, 0).
struct ReLU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Computes tanh(x).
struct Tanh : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Computes x times the cumulative normal distribution function at x.
struct GELU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Computes x times sigmoid(x).
struct SiLU : Module {
  using Module::Module;
  Tensor operator()(Term x) const;
};

// Selects rows of weight [count, width] by an index tensor of any shape: [i...] -> [i..., width]. Initial weights are
// as in PyTorch: normal with standard deviation 1. Row `padding` (counted from the end if negative) is initially zero
// and gets no gradient.
struct Embedding : Module {
  Embedding(Module& parent, const std::string& name, std::int64_t count, std::int64_t width,
            std::optional<std::int64_t> padding = {});
  Tensor operator()(Term index) const;
  Parameter weight;
  std::optional<std::int64_t> padding;
};

// layer_norm over the last dimensions, whose sizes are `shape`; weight (initially 1) and bias (initially 0) have that
// shape.
struct LayerNorm : Module {
  LayerNorm(Module& parent, const std::string& name, Shape shape, double eps = 1e-5);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  double eps;
};
// Divides x by the root of its mean square over the last dimensions and multiplies it by a weight; eps is as in
// rms_norm.
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
// Normalises each channel of x [n, c, ...], like PyTorch's BatchNorm1d, BatchNorm2d and BatchNorm3d; parameters and
// buffers have the same names as in PyTorch. Training uses the mean and variance s of the complete batch and updates
// the running statistics r = (1 - momentum) * r + momentum * s, with the unbiased variance; inference uses the running
// statistics. With micro-batches, each one is normalised by its own mean and variance and then updates the running
// statistics, as in PyTorch when gradients are accumulated.
struct BatchNorm : Module {
  BatchNorm(Module& parent, const std::string& name, std::int64_t channels, BatchNormOptions options = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;  // initially 1 and 0
  Parameter running_mean, running_var, num_batches_tracked;
  BatchNormOptions options;
};
// Normalises groups of channels of x [n, c, ...]; weight [c] is initially 1, bias [c] initially 0.
struct GroupNorm : Module {
  GroupNorm(Module& parent, const std::string& name, std::int64_t groups, std::int64_t channels, double eps = 1e-5);
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  std::int64_t groups;
  double eps;
};

// Options of an attention layer.
struct AttentionShape {
  std::int64_t kv_heads = 0;  // the number of heads of keys and values; 0 means the number of query heads
  bool causal = false;
  bool rotary = false;  // rotary positions for queries and keys; elements i and i + d / 2 of a head form a pair
  double rotary_base = 10000;
  double dropout = 0;  // probability of dropping an element of the output
  bool bias = true;
};
// Self-attention of x [n, t, width] -> [n, t, width], with the linear layers "query", "key", "value" and "out"; `heads`
// must divide `width`. The usual tensor parallelism splits the heads: the rows of the first three weights and the
// columns of the last one.
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

// Merges all dimensions except the first.
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
