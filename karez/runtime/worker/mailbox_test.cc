// Tests of the mailbox: mails keep their order, and no mail is lost while the reader sleeps.
#include "karez/runtime/worker/mailbox.h"

#include <gtest/gtest.h>

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
    box.sleep();  // returns immediately if there is mail
    for (Mail* mail = box.take_all(); mail != nullptr; mail = mail->next) {
      ASSERT_EQ(mail->local_index, next_index[static_cast<std::size_t>(mail->message.port)]++)
          << "a mail is out of order, from sender " << mail->message.port;
      ++count;
    }
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(box.empty());
}

}  // namespace
}  // namespace karez::runtime
