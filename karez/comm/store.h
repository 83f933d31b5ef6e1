// The store: where the processes of a world meet. Keys with values, waiting for a key, barriers; and the word that
// somebody has gone.
//
// Here is what it knows and does, without sockets: bytes of clients in, bytes for clients out. A client asks one thing
// at a time.
//
//   request  op u32, key bytes u32, value bytes u32, number u32, then key and value
//   reply    status u32 (0 well, 1 nothing there, 2 an error, whose text is the value), value bytes u32, then the value
//
//   op 1 hello    number: the client's rank, value: its name in errors. From then on its leaving without `bye` is an
//   error for clients that wait.
//                 An error where another client has said hello as that rank; the key `twice` then names both
//      2 set      key, value
//      3 get      key: its value, or nothing
//      4 wait     key: its value, once it is set
//      5 barrier  key, number: answers when so many have come to it, then it can be used again
//      6 check    nothing, or the error that somebody has gone
//      7 bye      value: why it gives up, an error for clients that wait; nothing where it leaves well
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
  static constexpr std::uint32_t most_key = 256, most_value = 1 << 20, most_number = 1 << 20;
};
std::string encode(const StoreRequest& request);
// Takes a request from the front of `bytes`, if a whole one is there. Throws Error (kind peer) on what is none, from
// its first 16 bytes on.
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
  // Whatever has come from it. Throws Error (kind peer) on what is no request, or asked too early; the client is to be
  // dropped then.
  void take(Client client, std::string_view bytes);
  // Its connection has ended: closed by the client, or for a reason of the system's.
  void leave(Client client, const std::string& why = {});

  static constexpr std::size_t most_bytes = 256 << 20;  // of keys and values
  static constexpr const char* duplicate_rank_key = "twice";

 private:
  struct ClientState {
    std::string bytes;  // of a request that is not whole
    std::string name;   // empty before hello
    std::uint32_t rank = 0;
    bool waits = false, goodbye = false;
    std::string why;  // it gives up
  };
  void reply(Client client, StoreReply::Status status, std::string value = {});
  void serve(Client client, ClientState& state, StoreRequest& request);
  void set(StoreRequest& request);

  Send send_;
  std::map<Client, ClientState> clients_;
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::vector<Client>, std::less<>> waiting_;  // for a key
  struct Barrier {
    std::uint32_t number = 0;
    std::vector<Client> arrived;
  };
  std::map<std::string, Barrier, std::less<>> barriers_;
  std::string departure_;  // the first that left without bye, or gave up: "rank 3 (alpha, process 4711) has gone"
};

}  // namespace karez::comm
