// Wires that a test reads and writes directly, to send frames that no correct peer would send.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm::test {

// Returns the bytes of a frame, valid or not, followed by its data.
inline std::string make_frame(std::uint32_t kind, std::uint32_t length, std::uint64_t channel, std::uint64_t size,
                              const std::string& data = "") {
  std::string out(24, '\0');
  std::memcpy(&out[0], &kind, 4);
  std::memcpy(&out[4], &length, 4);
  std::memcpy(&out[8], &channel, 8);
  std::memcpy(&out[16], &size, 8);
  return out + data;
}

// A wire that a test uses directly, with a thread in the role of the reactor.
class RawWire {
 public:
  RawWire(const TransportKind& kind, Descriptor socket) : wire_(kind.wire(std::move(socket), 1)) {}
  ~RawWire() {
    stopped_ = true;
    thread_.join();
  }
  // The next two functions return false after 20 seconds.
  bool write(std::string bytes) {
    iovec from{bytes.data(), bytes.size()};
    return await([&] {
      if (std::int64_t n = wire_->write(&from, 1); n > 0)
        from = {static_cast<char*>(from.iov_base) + n, from.iov_len - static_cast<std::size_t>(n)};
      return from.iov_len == 0;
    });
  }
  bool read_to_end() {
    std::byte buffer[1000];
    iovec into{buffer, sizeof buffer};
    return await([&] { return wire_->read(&into, 1) < 0; });
  }
  Wire* operator->() { return wire_.get(); }

 private:
  std::unique_ptr<Wire> wire_;
  std::atomic<bool> stopped_{false};
  std::thread thread_{[this] {
    while (!stopped_) {
      wire_->handle_wakeup();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }};
};

// A connection, and the other end of its wire for direct use.
struct RawConnectionPair {
  explicit RawConnectionPair(const TransportKind& kind) : RawConnectionPair(kind, kind.sockets()) {}
  RawConnectionPair(const TransportKind& kind, std::array<Descriptor, 2> sockets)
      : side(kind, std::move(sockets[0]), 0),
        wire(std::make_unique<RawWire>(kind, std::move(sockets[1]))) {}
  void write(std::string bytes) { ASSERT_TRUE(wire->write(std::move(bytes))); }
  // Reads until `expected` bytes have arrived, and then until no byte arrives for 20 ms.
  std::string read(std::int64_t expected) {
    std::string out, buffer(1 << 16, ' ');
    auto last_arrival = std::chrono::steady_clock::now();
    TestTimeout timeout(20);
    while ((std::ssize(out) < expected && !timeout.expired()) ||
           std::chrono::steady_clock::now() - last_arrival < std::chrono::milliseconds(20)) {
      iovec into{buffer.data(), buffer.size()};
      std::int64_t n = (*wire)->read(&into, 1);
      if (n <= 0) continue;
      out += buffer.substr(0, static_cast<std::size_t>(n));
      last_arrival = std::chrono::steady_clock::now();
    }
    return out;
  }
  ConnectionEnd side;
  std::unique_ptr<RawWire> wire;
};

inline std::byte* address_in(std::string& text, std::size_t position = 0) {
  return reinterpret_cast<std::byte*>(&text[position]);
}

}  // namespace karez::comm::test
