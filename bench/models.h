// The models of the step benchmarks: the example's CNN and MLP.
#pragma once

#include "api/karez.h"

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
  nn::Linear fc1{*this, "fc1", 28 * 28, 256}, fc2{*this, "fc2", 256, 128}, fc3{*this, "fc3", 128, 100}, fc4{*this, "fc4", 100, 10};
  Tensor operator()(Tensor x) { return fc4(relu(fc3(relu(fc2(relu(fc1(flatten(x)))))))); }
};

}  // namespace karez::bench
