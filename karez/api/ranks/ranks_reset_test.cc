// Tests of resets of a world with several ranks after a failure: all ranks continue as in a new world, or get an error
// that gives the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <limits>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"
#include "karez/kernels/kernel.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Fault { source, kernel, nan, program };

// The fault to inject on one rank.
struct FaultInjection {
  Fault fault = Fault::source;
  bool armed = false;
};

// A source of batches with eight rows. An armed fault `source` or `nan` occurs in the fifth batch.
struct Rows : Source {
  explicit Rows(const FaultInjection& injection) : injection(injection) {}
  const FaultInjection& injection;
  TensorType type() const override { return {DType::f64, {8, 4}}; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const tensor::TensorRef& out) const override {
    const bool is_faulty = injection.armed && position == 4;
    require(
        ErrorKind::hang,
        !is_faulty || injection.fault != Fault::source,  // not of the kind `data`, after which all ranks would continue
        "batch ", position, " is damaged");
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.as<double>()[i] = static_cast<double>((position * 5 + begin[0] * 4 + i) % 7) / 7;
    if (is_faulty && injection.fault == Fault::nan) out.as<double>()[0] = std::numeric_limits<double>::max();
  }
};

OpDef passing_op() {
  OpDef op;
  op.name = "passing";
  op.doc = "Returns the operand.";
  op.inputs = 1;
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  op.index = "i j -> i j";
  op.grad = [](graph::Builder&, const graph::NodeView&,
               std::span<const graph::ValueId> dy) -> std::vector<graph::ValueId> { return {dy[0]}; };
  return op;
}

kernels::KernelRow passing_kernel(const FaultInjection& injection, int& acts) {
  kernels::KernelRow row;
  row.name = "test.passing";
  row.op = "passing";
  row.rank = 1;
  row.supports = [](const plan::CallSpec& c) { return c.in[0].contiguous() && c.out[0].contiguous(); };
  row.prepare = [&injection, &acts](const plan::CallSpec& c) -> kernels::PreparedKernel {
    return [&injection, &acts, bytes = c.out[0].bytes()](const kernels::KernelArgs& args) {
      require(!injection.armed || injection.fault != Fault::kernel || ++acts < 3, "the kernel broke");
      std::memcpy(args.out[0], args.in[0], static_cast<std::size_t>(bytes));
    };
  };
  return row;
}

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc{*this, "fc", 4, 3};
};

// The world and the model of one rank.
struct Trainer {
  Trainer(const Ranks& job, double peer_timeout = 30)
      : world({.seed = 3,
               .check_nan = true,
               .ranks = job,
               .peer_timeout = peer_timeout,
               .ops = {passing_op()},
               .kernels = {passing_kernel(injection, acts)}}),
        rows(std::make_shared<Rows>(injection)) {}

  // Returns the losses of the first `steps` steps. The fault `program` throws before the fifth step.
  std::vector<double> train(int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      if (injection.armed && injection.fault == Fault::program && i == 4) throw std::runtime_error("the program broke");
      losses.push_back(step(Feed{rows, i}).item());
    }
    return losses;
  }

  FaultInjection injection;
  int acts = 0;
  World world;
  std::shared_ptr<Rows> rows;
  Net net;
  optim::Adam adam{net.parameters(), {.lr = 1e-2}};
  Function step = compile(world.mesh(base::cat("data=", world.ranks())), [this](Tensor x) {
    Tensor y = net.fc(apply("passing", {with_layout(x, P("data", nullptr))}) * 4.0);
    Tensor loss = mean(y * y);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
};

// Trains while a fault is armed on one of the ranks, and returns the error that this rank gets.
std::string train_with_fault(Trainer& trainer) {
  try {
    trainer.train(6);
  } catch (const std::exception& error) { return error.what(); }
  return "no error";
}

TEST(ResetsOfRanks, AfterAnyFailureAResetGivesTheLossesOfANewRun) {
  for (int ranks : {2, 3})
    for (Fault fault : {Fault::source, Fault::kernel, Fault::nan, Fault::program}) {
      on_ranks(ranks, [&](const Ranks& job) {
        Trainer trainer(job);
        const std::vector<double> expected = trainer.train(6);
        for (int victim : {ranks - 1, 0}) {
          trainer.world.reset();  // also without a failure
          trainer.acts = 0;
          trainer.injection = {fault, job.rank == victim};
          const std::string message = train_with_fault(trainer);
          EXPECT_NE(message, "no error") << ranks << " ranks, fault " << static_cast<int>(fault) << ", rank "
                                         << job.rank;
          trainer.injection.armed = false;
          trainer.world.reset();
          EXPECT_EQ(trainer.train(6), expected)
              << ranks << " ranks, fault " << static_cast<int>(fault) << ", rank " << job.rank;
        }
      });
    }
}

TEST(ResetsOfRanks, LoadingACheckpointReplacesAReset) {
  const std::string path = ::testing::TempDir() + "karez-ranks-reset.safetensors";
  on_ranks(2, [&](const Ranks& job) {
    Trainer trainer(job);
    trainer.train(3);
    trainer.world.save(path);
    const std::vector<double> expected = trainer.train(4);
    trainer.injection = {Fault::source, job.rank == 1};
    EXPECT_NE(train_with_fault(trainer), "no error");
    trainer.injection.armed = false;
    trainer.world.load(path);
    EXPECT_EQ(trainer.train(4), expected);
  });
}

TEST(ResetsOfRanks, AResetByOneRankFailsTheCallsOfTheOtherRanksWhichMayResetToo) {
  on_ranks(3, [](const Ranks& job) {
    Trainer trainer(job);
    const std::vector<double> expected = trainer.train(3);
    if (job.rank != 1) { EXPECT_THAT(train_with_fault(trainer), HasSubstr("rank 1 reaches a reset of the world")); }
    trainer.world.reset();
    EXPECT_EQ(trainer.train(3), expected);
  });
}

TEST(ResetsOfRanks, AResetNamesARankThatHasNotCalledResetAndSucceedsOnceThatRankCallsIt) {
  std::promise<void> reset_refused[2];
  on_ranks(3, [&](const Ranks& job) {
    Trainer trainer(job, 1);
    const std::vector<double> expected = trainer.train(2);
    trainer.injection = {Fault::source, job.rank == 0};
    EXPECT_NE(train_with_fault(trainer), "no error");
    trainer.injection.armed = false;
    if (job.rank == 2) {
      for (auto& promise : reset_refused) promise.get_future().wait();
    } else {
      EXPECT_THAT(
          error_of([&] { trainer.world.reset(); }),
          AllOf(HasSubstr("reset: rank 2 ("),
                HasSubstr(") has not called reset within 1.0 s; after a failure either all ranks or no rank must reset "
                          "the world")));
      EXPECT_THAT(error_of([&] { trainer.train(1); }), HasSubstr("is damaged")) << "the world must still be failed";
      reset_refused[job.rank].set_value();
    }
    trainer.world.reset();
    EXPECT_EQ(trainer.train(2), expected);
  });
}

TEST(ResetsOfRanks, AResetAfterARankHasExitedIsAnError) {
  std::promise<void> exited;
  on_ranks(2, [&](const Ranks& job) {
    try {
      Trainer trainer(job);
      trainer.train(2);
      trainer.injection = {Fault::source, job.rank == 1};
      EXPECT_NE(train_with_fault(trainer), "no error");
      if (job.rank == 1) throw std::runtime_error("it gives up");
      exited.get_future().wait();
      EXPECT_THAT(error_of([&] { trainer.world.reset(); }),
                  AllOf(HasSubstr("reset: rank 1 ("), HasSubstr(" has exited; restart the job")));
    } catch (const std::runtime_error&) { exited.set_value(); }
  });
}

}  // namespace
}  // namespace karez
