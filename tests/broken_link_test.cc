// Tests that every pending call reports a link that breaks during training, and that World::reset recovers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/comm/transport/test_failing_link.h"
#include "karez/karez.h"
#include "karez/runtime/session.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 8, 4};
};

TEST(BrokenLink, EveryPendingCallReportsTheErrorAndAResetRecovers) {
  for (std::int64_t messages : {0, 1, 2, 3, 5, 8, 13, 21}) {
    comm::FailingLinks links;
    World world({.devices = 4, .in_flight = 4, .session = [&](runtime::SessionOptions& options) {
                   options.on_endpoint = std::ref(links);
                   options.delays = {.max_microseconds = 50, .seed = 1};
                 }});
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    auto step = compile(world.mesh("data=2,model=2"),
                        [&](Tensor x, Tensor y) {
                          Tensor loss = cross_entropy(net.fc(x), y);
                          sgd.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.rules = {{"fc.weight", P("model", nullptr)}}});
    HostArray x(TensorType{DType::f32, {6, 8}}), y(TensorType{DType::i32, {6}});
    for (std::size_t i = 0; i < 48; ++i) x.data<float>()[i] = static_cast<float>(i % 7) / 7;
    for (std::size_t i = 0; i < 6; ++i) y.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 4);
    auto train = [&] {
      std::vector<float> losses;
      for (int i = 0; i < 10; ++i) losses.push_back(static_cast<float>(step(x, y).item()));
      return losses;
    };
    const std::vector<float> unbroken = train();
    EXPECT_LT(unbroken.back(), unbroken.front());

    links.at = links.sent + messages;
    std::vector<Future> calls;
    EXPECT_THROW(
        {
          for (;;) calls.push_back(step(x, y));
        },
        Error)
        << "a call after the break must be rejected";
    int failed_calls = 0;
    for (auto& call : calls) try {
        call.wait();
        EXPECT_EQ(failed_calls, 0) << "no call may succeed after a call that failed";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, ErrorKind::peer);
        EXPECT_THAT(error.what(), HasSubstr("the link from member "));
        ++failed_calls;
      }
    EXPECT_GE(failed_calls, 1);

    links.at = INT64_MAX;
    EXPECT_THROW(step(x, y), Error) << "calls must fail until the world is reset";
    world.reset();
    EXPECT_EQ(train(), unbroken) << "a reset must restore the initial weights";
  }
}

}  // namespace
}  // namespace karez::tests
