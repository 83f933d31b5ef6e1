// Defines the models of the step benchmarks: the example's CNN and MLP, a residual network of 18 layers, a transformer
// over characters, and many small layers.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "bench/namespace.h"
#include "karez/karez.h"

namespace karez::bench {

struct Cnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 16, 3}, conv2{*this, "conv2", 16, 32, 3};
  nn::Linear fc1{*this, "fc1", 32 * 5 * 5, 128}, fc2{*this, "fc2", 128, 10};
  Tensor operator()(Tensor x) {
    x = max_pool(relu(conv1(x)), 2);
    x = max_pool(relu(conv2(x)), 2);
    return fc2(relu(fc1(flatten(x))));
  }
};

struct Mlp : nn::Module {
  nn::Linear fc1{*this, "fc1", 28 * 28, 256}, fc2{*this, "fc2", 256, 128}, fc3{*this, "fc3", 128, 100},
      fc4{*this, "fc4", 100, 10};
  Tensor operator()(Tensor x) { return fc4(relu(fc3(relu(fc2(relu(fc1(flatten(x)))))))); }
};

// The block of two convolutions of a residual network (He et al., 2015). Its input is added to the result, after a
// convolution of 1 x 1 if their shapes differ.
struct ResNetBlock : nn::Module {
  ResNetBlock(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t stride)
      : Module(parent, name),
        conv1(*this, "conv1", in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        bn1(*this, "bn1", out),
        conv2(*this, "conv2", out, out, 3, {.padding = 1, .bias = false}),
        bn2(*this, "bn2", out) {
    if (stride == 1 && in == out) return;
    shortcut =
        std::make_unique<nn::Conv2d>(*this, "shortcut", in, out, 1, nn::ConvShape{.stride = stride, .bias = false});
    shortcut_bn = std::make_unique<nn::BatchNorm>(*this, "shortcut_bn", out);
  }
  nn::Conv2d conv1;
  nn::BatchNorm bn1;
  nn::Conv2d conv2;
  nn::BatchNorm bn2;
  std::unique_ptr<nn::Conv2d> shortcut;
  std::unique_ptr<nn::BatchNorm> shortcut_bn;
  Tensor operator()(Tensor x) {
    Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (shortcut ? (*shortcut_bn)((*shortcut)(x)) : x));
  }
};

// A residual network of 18 layers for 10 classes: four stages of two blocks, with 64 to 512 channels.
struct ResNet18 : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 64, 7, {.stride = 2, .padding = 3, .bias = false}};
  nn::BatchNorm bn1{*this, "bn1", 64};
  std::vector<std::unique_ptr<ResNetBlock>> blocks;
  nn::Linear fc{*this, "fc", 512, 10};
  ResNet18() {
    for (std::int64_t i = 0, in = 64; i < 8; ++i) {
      const std::int64_t out = std::int64_t{64} << (i / 2);
      blocks.push_back(std::make_unique<ResNetBlock>(*this, cat("block", i), in, out, in == out ? 1 : 2));
      in = out;
    }
  }
  Tensor operator()(Tensor x) {
    x = max_pool(relu(bn1(conv1(x))), 3, 2, 1);
    for (auto& block : blocks) x = (*block)(x);
    return fc(mean(x, {2, 3}));
  }
};

// Many layers that are so small that the overhead of calls dominates.
struct SmallLayers : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  SmallLayers() {
    for (int i = 0; i < 50; ++i) layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), 16, 16));
  }
  Tensor operator()(Tensor x) {
    for (auto& layer : layers) x = relu((*layer)(x));
    return x;
  }
};

// Normalises the last dimension, with PyTorch's eps.
struct LayerNorm : nn::Module {
  LayerNorm(Module& parent, const std::string& name, std::int64_t width)
      : Module(parent, name),
        weight(make_parameter("weight", {width}, constant_init(1))),
        bias(make_parameter("bias", {width}, constant_init(0))) {}
  Tensor operator()(Tensor x) {
    Tensor centred = x - mean(x, {-1}, true);
    Tensor variance = mean(centred * centred, {-1}, true);
    return centred / sqrt(variance + 1e-5) * weight + bias;
  }
  Parameter weight, bias;
};

struct GptShape {
  std::int64_t layers = 4, width = 128, heads = 4, length = 64, vocabulary = 65;
};

// Causal self-attention, then a hidden dense layer of four times the width. Each reads normalised input, and its result
// is added to the input.
struct GptBlock : nn::Module {
  GptBlock(Module& parent, const std::string& name, GptShape s) : Module(parent, name), shape(s) {}
  GptShape shape;
  LayerNorm norm1{*this, "norm1", shape.width}, norm2{*this, "norm2", shape.width};
  nn::Linear query{*this, "query", shape.width, shape.width}, key{*this, "key", shape.width, shape.width},
      value{*this, "value", shape.width, shape.width}, out{*this, "out", shape.width, shape.width};
  nn::Linear up{*this, "up", shape.width, 4 * shape.width}, down{*this, "down", 4 * shape.width, shape.width};

  // [n, t, width] -> [n, heads, t, width / heads]
  Tensor split(Tensor x) const {
    return transpose(reshape(x, {x.size(0), x.size(1), shape.heads, shape.width / shape.heads}), {0, 2, 1, 3});
  }

  Tensor attention(Tensor x) {
    std::int64_t n = x.size(0), t = x.size(1);
    Tensor q = split(query(x)), k = split(key(x)), v = split(value(x));
    Tensor scores = matmul(q, transpose(k)) * (1 / std::sqrt(static_cast<double>(shape.width / shape.heads)));
    Tensor visible = iota({t, t}, 0) >= iota({t, t}, 1);  // a position attends to itself and to earlier positions
    Tensor weights = softmax(select(visible, scores, -1e9));
    return out(reshape(transpose(matmul(weights, v), {0, 2, 1, 3}), {n, t, shape.width}));
  }
  Tensor operator()(Tensor x) {
    x = x + attention(norm1(x));
    return x + down(gelu(up(norm2(x))));
  }
};

inline constexpr GptShape wide_gpt = {.width = 512, .heads = 8, .length = 128};

// Tokens [n, t] -> logits [n * t, vocabulary] of the next token at each position.
struct Gpt : nn::Module {
  explicit Gpt(GptShape s = {}, DType dtype = DType::f32) : Module(dtype), shape(s) {
    for (std::int64_t i = 0; i < s.layers; ++i) blocks.push_back(std::make_unique<GptBlock>(*this, cat("block", i), s));
  }
  GptShape shape;
  Parameter tokens = make_parameter("tokens", {shape.vocabulary, shape.width}, uniform_init(0.1)),
            places = make_parameter("places", {shape.length, shape.width}, uniform_init(0.1));
  std::vector<std::unique_ptr<GptBlock>> blocks;
  LayerNorm norm{*this, "norm", shape.width};
  nn::Linear head{*this, "head", shape.width, shape.vocabulary};

  Tensor operator()(Tensor x) {
    Tensor h = gather(tokens, x) + places;
    for (auto& block : blocks) h = (*block)(h);
    return head(reshape(norm(h), {-1, shape.width}));
  }
};

}  // namespace karez::bench
