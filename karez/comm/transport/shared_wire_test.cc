// Tests of the shared wire: the transfer of its segment, and invalid contents from a peer.
#include "karez/comm/transport/shared_wire.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "karez/base/test_error.h"
#include "karez/comm/transport/test_links.h"
#include "karez/comm/transport/test_socket_pairs.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

// Sends a descriptor in the format of the wire, with any magic number and size.
void send_segment(int socket, int descriptor, std::uint64_t magic, std::uint64_t ring_bytes) {
  std::uint64_t words[2] = {magic, ring_bytes};
  iovec part{words, sizeof words};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  ASSERT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof words));
}

int receive_segment(int socket, std::uint64_t (&words)[2]) {
  iovec part{words, sizeof words};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) != sizeof words) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

constexpr std::uint64_t magic = 0x316d687a6572616bull;
constexpr std::size_t ring = 4096, segment = 2 * (4096 + ring);
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Descriptor make_segment(std::size_t bytes, int segment_seals) {
  Descriptor out(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(out.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(segment_seals == 0 ? 0 : fcntl(out.get(), F_ADD_SEALS, segment_seals), 0);
  return out;
}

TEST(SharedWire, InvalidSegmentsAreRejected) {
  struct Row {
    std::size_t bytes;
    int seals;
    std::uint64_t magic, ring_bytes;
    const char* error_text;
  };
  for (const Row& row : {Row{segment, seals, magic + 1, ring, "no shared memory segment"},
                         Row{segment, seals, magic, ring + 1, "no shared memory segment"},
                         Row{segment, seals, magic, ring / 2, "no shared memory segment"},
                         Row{segment, seals, magic, std::uint64_t{1} << 40, "no shared memory segment"},
                         Row{segment - 1, seals, magic, ring, "or its size is not the announced one"},
                         Row{segment, seals, magic, 2 * ring, "or its size is not the announced one"},
                         Row{segment, 0, magic, ring, "the shared memory segment may shrink"},
                         Row{0, 0, magic, ring, "no shared memory segment"}}) {
    auto sockets = socket_pair();
    Descriptor descriptor;
    if (row.bytes > 0) descriptor = make_segment(row.bytes, row.seals);
    send_segment(sockets[0].get(), descriptor.get(), row.magic, row.ring_bytes);
    EXPECT_THAT(error_of([&] { SharedWire::attach(std::move(sockets[1]), Seconds(1)); }), HasSubstr(row.error_text));
  }
  auto sockets = socket_pair();
  EXPECT_THAT(error_of([&] { SharedWire::attach(std::move(sockets[1]), Seconds(0.05)); }),
              HasSubstr("no shared memory segment arrived"));
  auto other_sockets = socket_pair();
  EXPECT_THAT(error_of([&] { SharedWire::create(std::move(other_sockets[0]), 5000); }),
              HasSubstr("ring size is 5000 bytes; it must be a power of two"));
}

TEST(SharedWire, ImpossibleIndicesEndTheWire) {
  for (bool reads : {true, false}) {
    auto sockets = socket_pair();
    auto wire = SharedWire::create(std::move(sockets[0]), ring);
    std::uint64_t words[2];
    Descriptor descriptor(receive_segment(sockets[1].get(), words));
    ASSERT_EQ(words[1], ring);
    void* mapped = mmap(nullptr, segment, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto* bytes = static_cast<std::byte*>(mapped);
    auto set_index = [&](std::size_t offset, std::uint64_t value) {
      std::memcpy(bytes + offset, &value, sizeof value);
    };
    std::vector<std::byte> data(10000, std::byte{7});
    iovec part{data.data(), data.size()};
    std::int64_t written = 0;
    for (std::int64_t n = 1; n > 0; written += n) n = wire->write(&part, 1);
    EXPECT_EQ(written, static_cast<std::int64_t>(ring)) << "writing must stop when the ring is full";
    if (reads) {
      set_index(4096, ring + 1);  // the peer's head, with more bytes than the ring has
      EXPECT_EQ(wire->read(&part, 1), -1);
    } else {
      set_index(64, ring + 5);  // the peer's tail, with more bytes than were written
      EXPECT_EQ(wire->write(&part, 1), -1);
    }
    EXPECT_EQ(wire->reason(), "the shared memory is corrupted");
    munmap(mapped, segment);
  }
}

TEST(SharedWire, DataWrittenBeforeTheEndIsRead) {
  auto sockets = socket_pair();
  auto first = SharedWire::create(std::move(sockets[0]), ring);
  auto second = SharedWire::attach(std::move(sockets[1]), Seconds(1));
  std::string from = "last bytes", to(10, '.');
  iovec out{from.data(), from.size()}, in{to.data(), to.size()};
  EXPECT_EQ(first->write(&out, 1), 10);
  first.reset();
  second->handle_wakeup();
  EXPECT_EQ(second->read(&in, 1), 10);
  EXPECT_EQ(to, from);
  EXPECT_EQ(second->read(&in, 1), -1);
  EXPECT_EQ(second->write(&out, 1), -1);
}

}  // namespace
}  // namespace karez::comm
