// Store: the key-value service of a world: keys with values, waiting for a key, barriers, and the report that a process
// has exited.
//
// This file has its state and logic without sockets: bytes from clients in, bytes for clients out. A client has one
// request at a time.
//
//   request  op u32, key bytes u32, value bytes u32, number u32, then key and value
//   reply    status u32 (0 ok, 1 not found, 2 an error, whose text is the value), value bytes u32, then the value
//
//   op 1 hello    number: the client's rank, value: its name in errors. From then on its departure without a goodbye is
//                 an error for waiting clients. An error if another client has said hello as that rank; the key `twice`
//                 then names both
//      2 set      key, value
//      3 get      key: its value, or not found
//      4 wait     key: its value, once it is set
//      5 barrier  key, number: replies once this number of clients has called it; then it can be used again
//      6 check    not found, or the error that a process has exited
//      7 goodbye  value: why the client gives up, an error for waiting clients; empty if it leaves in order
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "karez/comm/namespace.h"

namespace karez::comm {

struct StoreRequest {
  enum class Op : std::uint32_t { hello = 1, set, get, wait, barrier, check, goodbye };
  Op op = Op::check;
  std::uint32_t number = 0;
  std::string key, value;

  static constexpr std::size_t header_bytes = 16;
  static constexpr std::uint32_t max_key = 256, max_value = 1 << 20, max_number = 1 << 20;
};
std::string encode(const StoreRequest& request);
// Takes a request from the front of `bytes`, if a whole one is there. Throws Error (kind peer) if its first 16 bytes
// are not a valid header.
bool decode(std::string_view& bytes, StoreRequest& request);

struct StoreReply {
  enum class Status : std::uint32_t { ok, not_found, error };
  Status status = Status::ok;
  std::string value;
  static constexpr std::size_t header_bytes = 8;
};
std::string encode(const StoreReply& reply);
bool decode(std::string_view& bytes, StoreReply& reply);

class Store {
 public:
  using Client = std::uint64_t;
  using Send = std::function<void(Client, const StoreReply&)>;
  explicit Store(Send send) : send_(std::move(send)) {}

  void join(Client client);
  // Bytes received from the client. Throws Error (kind peer) on an invalid request, or one before the last reply; the
  // caller then drops the client.
  void take(Client client, std::string_view bytes);
  // The client's connection has ended: closed by the client, or for the system's reason `why`.
  void leave(Client client, const std::string& why = {});

  static constexpr std::size_t max_bytes = 256 << 20;  // of keys and values
  static constexpr const char* duplicate_rank_key = "twice";

 private:
  struct ClientState {
    std::string bytes;  // of an incomplete request
    std::string name;   // empty before hello
    std::uint32_t rank = 0;
    bool waits = false, goodbye = false;
    std::string why;  // why it gives up
  };
  void reply(Client client, StoreReply::Status status, std::string value = {});
  void serve(Client client, ClientState& state, StoreRequest& request);
  void set(StoreRequest& request);

  Send send_;
  std::map<Client, ClientState> clients_;
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::vector<Client>, std::less<>> waiting_;  // by key
  struct Barrier {
    std::uint32_t number = 0;
    std::vector<Client> arrived;
  };
  std::map<std::string, Barrier, std::less<>> barriers_;
  std::string departure_;  // the first exit without an empty goodbye: "rank 3 (alpha, process 4711) has exited"
};

}  // namespace karez::comm
