// Store: the key-value service of a world, with values by key, waiting for a key, barriers, and the report that a
// process has exited.
//
// This file contains the store's state and logic, without sockets: it takes bytes from clients and returns replies. A
// client has one request at a time.
//
//   request  op u32, key bytes u32, value bytes u32, number u32, then key and value
//   reply    status u32 (0 ok, 1 not found, 2 error with its text as the value), value bytes u32, then the value
//
//   op 1 hello    number: the client's rank, value: its name in errors. If the client later leaves without a goodbye,
//                 waiting clients get an error. If another client has joined as this rank, the reply is an error, and
//                 the value of the key `twice` names both clients
//      2 set      sets the value of a key
//      3 get      replies with the value of a key, or not found
//      4 wait     replies with the value of a key once it is set
//      5 barrier  key, number: replies once this number of clients has called it; then the key can be used again
//      6 check    replies with the error that a process has exited, or not found
//      7 goodbye  value: the reason why the client gives up, which waiting clients get as an error; empty if the
//                 client leaves in order
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
// Removes a request from the front of `bytes` if it is complete. Throws Error (kind peer) if its first 16 bytes are not
// a valid header.
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
  // Takes bytes that were received from the client. Throws Error (kind peer) if a request is invalid or arrives before
  // the reply to the last one; the caller then drops the client.
  void take(Client client, std::string_view bytes);
  // Call when the client's connection has ended: because of a system error, which is the `reason`, or because the
  // client closed it (no reason).
  void leave(Client client, const std::string& reason = {});

  static constexpr std::size_t max_bytes = 256 << 20;  // of all keys and values
  static constexpr const char* duplicate_rank_key = "twice";

 private:
  struct ClientState {
    std::string bytes;  // of an incomplete request
    std::string name;   // empty before hello
    std::uint32_t rank = 0;
    bool waits = false, left_in_order = false;
    std::string reason;  // why the client gives up
  };
  void reply(Client client, StoreReply::Status status, std::string value = {});
  void serve(Client client, ClientState& state, StoreRequest& request);
  void set(StoreRequest& request);

  Send send_;
  std::map<Client, ClientState> clients_;
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::vector<Client>, std::less<>> waiting_;  // clients by key
  struct Barrier {
    std::uint32_t number = 0;
    std::vector<Client> arrived;
  };
  std::map<std::string, Barrier, std::less<>> barriers_;
  // The first departure of a client that did not leave in order: "rank 3 (alpha, process 4711) has exited".
  std::string departure_;
};

}  // namespace karez::comm
