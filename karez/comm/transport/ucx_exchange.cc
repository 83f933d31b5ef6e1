// The UCX exchange: at the start a header and an address, at the end the number of written bytes.
#include "karez/comm/transport/ucx_exchange.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
struct Header {
  std::uint64_t magic, address_bytes;
};
constexpr std::uint64_t magic = 0x317863757a72616bull;  // marks the message that carries an address
constexpr std::size_t max_address_bytes = 64 << 10;

std::optional<Header> header_of(std::span<const std::byte> bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}
}  // namespace

// The address is short and the first data on the socket, so the kernel accepts it in one call.
void send_ucx_address(int socket, std::span<const std::byte> address) {
  Header header{magic, address.size()};
  iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(address.data()), address.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  auto sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  require(ErrorKind::peer, sent == static_cast<ssize_t>(sizeof header + address.size()),
          "cannot send the address of UCX: ", std::strerror(errno));
}

void UcxExchange::append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

bool UcxExchange::is_invalid() const {
  const auto header = header_of(bytes_);
  return header && (header->magic != magic || header->address_bytes > max_address_bytes || header->address_bytes == 0);
}

std::optional<std::vector<std::byte>> UcxExchange::take_address() {
  const auto header = header_of(bytes_);
  if (!header || is_invalid() || bytes_.size() < sizeof *header + header->address_bytes) return std::nullopt;
  const auto begin = bytes_.begin() + sizeof *header, end = begin + static_cast<std::ptrdiff_t>(header->address_bytes);
  std::vector<std::byte> address(begin, end);
  bytes_.erase(bytes_.begin(), end);
  return address;
}

std::optional<std::int64_t> UcxExchange::bytes_written() const {
  std::int64_t out = 0;
  if (bytes_.size() < sizeof out) return std::nullopt;
  std::memcpy(&out, bytes_.data(), sizeof out);
  return out;
}

}  // namespace karez::comm
