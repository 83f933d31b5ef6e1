// Tests of the mailbox: mails keep their order, and no mail is lost while the reader sleeps.
#include "karez/runtime/worker/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

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

TEST(Mailbox, AReaderThatSleepsMissesNoMailOfSeveralSenders) {
  constexpr int senders = 3, mails_per_sender = 20000;
  Mailbox box;
  std::vector<std::vector<Mail>> mails(senders);
  for (int s = 0; s < senders; ++s) {
    mails[static_cast<std::size_t>(s)].resize(mails_per_sender);
    for (int i = 0; i < mails_per_sender; ++i) {
      mails[static_cast<std::size_t>(s)][static_cast<std::size_t>(i)].local_index = i;
      mails[static_cast<std::size_t>(s)][static_cast<std::size_t>(i)].message.port = s;
    }
  }
  std::vector<std::thread> threads;
  for (int s = 0; s < senders; ++s)
    threads.emplace_back([&, s] {
      for (Mail& mail : mails[static_cast<std::size_t>(s)]) box.post(&mail);
    });
  std::vector<int> next_index(senders, 0);
  for (int count = 0; count < senders * mails_per_sender;) {
    box.sleep(box.wakes());  // returns immediately if there is mail
    for (Mail* mail = box.take_all(); mail != nullptr; mail = mail->next) {
      ASSERT_EQ(mail->local_index, next_index[static_cast<std::size_t>(mail->message.port)]++)
          << "a mail is out of order, from sender " << mail->message.port;
      ++count;
    }
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(box.empty());
}

TEST(Mailbox, AnotherThreadReadsInPlaceOfASleepingReader) {
  Mailbox box;
  Mail silent, loud;
  EXPECT_TRUE(box.restore_mark());
  EXPECT_TRUE(box.restore_mark());  // the mark is there already
  EXPECT_TRUE(box.empty());
  EXPECT_EQ(box.take_all(), nullptr);  // not the mark
  box.post_silently(&silent);
  EXPECT_FALSE(box.empty());
  EXPECT_FALSE(box.restore_mark());
  EXPECT_EQ(box.take_all(), &silent);
  EXPECT_EQ(silent.next, nullptr);  // not the mark
  EXPECT_TRUE(box.restore_mark());
  const std::uint32_t wakes = box.wakes();
  box.wake();
  box.sleep(wakes);  // returns immediately

  std::atomic<int> woken{0};
  std::thread reader([&] {
    for (int i = 0; i < 2; ++i) {
      box.sleep(box.wakes());
      ++woken;
      woken.notify_one();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(woken.load(), 0);
  box.post(&loud);  // finds the mark
  woken.wait(0);
  EXPECT_EQ(box.take_all(), &loud);
  box.wake();
  reader.join();
  EXPECT_EQ(woken.load(), 2);
}

}  // namespace
}  // namespace karez::runtime
