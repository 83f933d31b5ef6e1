// Tests of the mailbox (order, no mail lost while the reader sleeps) and of strided copies.
#include "karez/runtime/mailbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "karez/runtime/host_copy.h"

namespace karez::runtime {
namespace {

TEST(Mailbox, MailsAreTakenInTheOrderInWhichTheyWerePosted) {
  Mailbox box;
  std::vector<Mail> mails(5);
  EXPECT_TRUE(box.empty());
  for (Mail& mail : mails) box.post(&mail);
  Mail* next = box.take_all();
  for (Mail& mail : mails) {
    ASSERT_EQ(next, &mail);
    next = next->next;
  }
  EXPECT_EQ(next, nullptr);
  EXPECT_TRUE(box.empty());
  EXPECT_EQ(box.take_all(), nullptr);
}

TEST(Mailbox, ASleepingReaderMissesNoMailOfSeveralSenders) {
  constexpr int senders = 3, each = 20000;
  Mailbox box;
  std::vector<std::vector<Mail>> mails(senders);
  for (int s = 0; s < senders; ++s) {
    mails[static_cast<std::size_t>(s)].resize(each);
    for (int i = 0; i < each; ++i) {
      mails[static_cast<std::size_t>(s)][static_cast<std::size_t>(i)].local_index = i;
      mails[static_cast<std::size_t>(s)][static_cast<std::size_t>(i)].message.port = s;
    }
  }
  std::vector<std::thread> threads;
  for (int s = 0; s < senders; ++s)
    threads.emplace_back([&, s] {
      for (Mail& mail : mails[static_cast<std::size_t>(s)]) box.post(&mail);
    });
  std::vector<int> due(senders, 0);
  for (int count = 0; count < senders * each;) {
    box.sleep();  // returns at once if there is mail
    for (Mail* mail = box.take_all(); mail != nullptr; mail = mail->next) {
      ASSERT_EQ(mail->local_index, due[static_cast<std::size_t>(mail->message.port)]++)
          << "out of order from sender " << mail->message.port;
      ++count;
    }
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(box.empty());
}

TEST(HostCopy, StridedTensorsAreCopiedElementByElementAndDenseOnesWhole) {
  const Shape shape{2, 3, 4, 5};
  const std::vector<Strides> layouts = {row_major(shape), channels_last(shape), {200, 60, 15, 2}, {60, 20, 5, 1}};
  for (const Strides& from : layouts)
    for (const Strides& to : layouts) {
      View a(DType::i32, shape, from), b(DType::i32, shape, to);
      std::vector<std::int32_t> source(static_cast<std::size_t>(a.extent())),
          target(static_cast<std::size_t>(b.extent()), -1);
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::int32_t>(i);
      copy_tensor(reinterpret_cast<std::byte*>(target.data()), b, reinterpret_cast<const std::byte*>(source.data()), a);
      for_each_index(shape, [&](const auto& index) {
        ASSERT_EQ(target[static_cast<std::size_t>(offset_of(index, to))],
                  source[static_cast<std::size_t>(offset_of(index, from))]);
      });
    }
}

TEST(HostCopy, EmptyTensorsAndScalarsAreCopiedAndOtherShapesRefused) {
  float from = 3, to = 0;
  auto* f = reinterpret_cast<std::byte*>(&from);
  auto* t = reinterpret_cast<std::byte*>(&to);
  copy_tensor(t, View(DType::f32, {4, 0}), f, View(DType::f32, {4, 0}));
  EXPECT_EQ(to, 0);
  copy_tensor(t, View(DType::f32, {}), f, View(DType::f32, {}));
  EXPECT_EQ(to, 3);
  EXPECT_THROW(copy_tensor(t, View(DType::f32, {1}), f, View(DType::f32, {})), Error);
  EXPECT_THROW(copy_tensor(t, View(DType::f32, {1}), f, View(DType::i32, {1})), Error);
}

}  // namespace
}  // namespace karez::runtime
