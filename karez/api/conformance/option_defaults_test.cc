// Tests of the default values of options.
#include <gtest/gtest.h>

#include "karez/karez.h"

namespace karez {
namespace {

TEST(Defaults, OptionsOfWorlds) {
  const WorldOptions world;
  EXPECT_EQ(world.devices, 1);
  EXPECT_EQ(world.device_limit, 4096);
  EXPECT_EQ(world.workers, 0);
  EXPECT_EQ(world.team, 0);
  EXPECT_EQ(world.data_cores, 0);
  EXPECT_EQ(world.in_flight, 4);
  EXPECT_EQ(world.seed, 1u);
  EXPECT_EQ(world.memory, 0);
  EXPECT_FALSE(world.check_nan);
  EXPECT_EQ(world.check_inputs, InputCheck::sampled);
  EXPECT_EQ(world.start_timeout, 600);
  EXPECT_EQ(world.peer_timeout, 30);
  EXPECT_EQ(world.call_timeout, 300);
  const Ranks ranks;
  EXPECT_EQ(ranks.rank, 0);
  EXPECT_EQ(ranks.ranks, 1);
  EXPECT_EQ(MeshPlace().first, 0);
}

TEST(Defaults, OptionsOfFunctions) {
  const FunctionOptions function;
  EXPECT_EQ(function.amp, "");
  EXPECT_EQ(function.microbatches, 1);
  EXPECT_TRUE(function.train);
  EXPECT_FALSE(function.check_nan);
  EXPECT_FALSE(function.reassociate);
  EXPECT_EQ(function.name, "main");
  EXPECT_FALSE(function.keep_text);
  EXPECT_EQ(function.keep, 16);
  EXPECT_EQ(function.loss_scale.growth, 2);
  EXPECT_EQ(function.loss_scale.backoff, 0.5);
  EXPECT_EQ(function.loss_scale.interval, 2000);
  EXPECT_FALSE(ScanOptions().reverse);
  EXPECT_EQ(ScanOptions().length, -1);
  EXPECT_EQ(GradientOf().arguments, std::vector<int>{0});
}

TEST(Defaults, OptionsOfCheckpoints) {
  EXPECT_EQ(CheckpointNotes().position, 0);
  EXPECT_FALSE(LoadOptions().missing);
  EXPECT_FALSE(LoadOptions().extra);
  const WeightRule rule;
  EXPECT_FALSE(rule.transposed);
  EXPECT_EQ(rule.part, 0);
  EXPECT_EQ(rule.parts, 1);
  EXPECT_EQ(rule.axis, 0);
}

TEST(Defaults, OptionsOfOptimisersAreThoseOfPyTorch) {
  const optim::SGDOptions sgd;
  EXPECT_EQ(sgd.lr, 1e-3);
  EXPECT_EQ(sgd.momentum, 0);
  EXPECT_EQ(sgd.weight_decay, 0);
  EXPECT_FALSE(sgd.nesterov);
  EXPECT_EQ(sgd.name, "sgd");
  const optim::AdamOptions adam;
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.beta1, 0.9);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.eps, 1e-8);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_FALSE(adam.decoupled);
  EXPECT_EQ(adam.name, "adam");
  const optim::AdamWOptions adamw;
  EXPECT_EQ(adamw.lr, 1e-3);
  EXPECT_EQ(adamw.beta1, 0.9);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.eps, 1e-8);
  EXPECT_EQ(adamw.weight_decay, 1e-2);
  EXPECT_EQ(adamw.name, "adamw");
  const optim::RMSpropOptions rmsprop;
  EXPECT_EQ(rmsprop.lr, 1e-2);
  EXPECT_EQ(rmsprop.alpha, 0.99);
  EXPECT_EQ(rmsprop.eps, 1e-8);
  EXPECT_EQ(rmsprop.weight_decay, 0);
  EXPECT_EQ(rmsprop.momentum, 0);
  EXPECT_FALSE(rmsprop.centered);
  EXPECT_EQ(rmsprop.name, "rmsprop");
  const optim::AdagradOptions adagrad;
  EXPECT_EQ(adagrad.lr, 1e-2);
  EXPECT_EQ(adagrad.lr_decay, 0);
  EXPECT_EQ(adagrad.weight_decay, 0);
  EXPECT_EQ(adagrad.initial, 0);
  EXPECT_EQ(adagrad.eps, 1e-10);
  EXPECT_EQ(adagrad.name, "adagrad");
  const optim::LionOptions lion;
  EXPECT_EQ(lion.lr, 1e-4);
  EXPECT_EQ(lion.beta1, 0.9);
  EXPECT_EQ(lion.beta2, 0.99);
  EXPECT_EQ(lion.weight_decay, 0);
  EXPECT_EQ(lion.name, "lion");
}

TEST(Defaults, OptionsOfFunctionsOfTensorsAndLayers) {
  const Ints ones{1, 1}, zeros{0, 0};
  EXPECT_EQ(Conv2dOptions().stride, ones);
  EXPECT_EQ(Conv2dOptions().padding, zeros);
  EXPECT_EQ(Conv2dOptions().dilation, ones);
  EXPECT_EQ(Conv1dOptions().stride, 1);
  EXPECT_EQ(Conv1dOptions().padding, 0);
  EXPECT_EQ(Conv1dOptions().dilation, 1);
  EXPECT_EQ(ConvTranspose2dOptions().stride, ones);
  EXPECT_EQ(ConvTranspose2dOptions().padding, zeros);
  EXPECT_EQ(ConvTranspose2dOptions().output_padding, zeros);
  EXPECT_EQ(ConvTranspose2dOptions().dilation, ones);
  EXPECT_EQ(ConvTranspose2dOptions().groups, 1);
  EXPECT_EQ(RunningStatistics().momentum, 0.1);
  EXPECT_FALSE(AttentionOptions().causal);
  EXPECT_FALSE(AttentionOptions().scale.has_value());
  EXPECT_EQ(RotaryOptions().base, 10000);
  EXPECT_EQ(RotaryOptions().first, 0);
  EXPECT_FALSE(RotaryOptions().interleaved);
  EXPECT_FALSE(CrossEntropyOptions().ignore_index.has_value());
  EXPECT_EQ(nn::ConvShape().stride, 1);
  EXPECT_EQ(nn::ConvShape().padding, 0);
  EXPECT_TRUE(nn::ConvShape().bias);
  EXPECT_EQ(nn::TransposeShape().stride, 1);
  EXPECT_EQ(nn::TransposeShape().padding, 0);
  EXPECT_EQ(nn::TransposeShape().output_padding, 0);
  EXPECT_EQ(nn::TransposeShape().groups, 1);
  EXPECT_TRUE(nn::TransposeShape().bias);
  EXPECT_EQ(nn::BatchNormOptions().momentum, 0.1);
  EXPECT_EQ(nn::BatchNormOptions().eps, 1e-5);
  EXPECT_EQ(nn::AttentionShape().kv_heads, 0);
  EXPECT_FALSE(nn::AttentionShape().causal);
  EXPECT_FALSE(nn::AttentionShape().rotary);
  EXPECT_EQ(nn::AttentionShape().rotary_base, 10000);
  EXPECT_EQ(nn::AttentionShape().dropout, 0);
  EXPECT_TRUE(nn::AttentionShape().bias);
  EXPECT_EQ(nn::RecurrentShape().layers, 1);
  EXPECT_TRUE(nn::RecurrentShape().bias);
  EXPECT_FALSE(nn::RecurrentShape().batch_first);
}

}  // namespace
}  // namespace karez
