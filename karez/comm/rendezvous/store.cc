// Implements the store: encodes and decodes requests and replies, and serves each kind of request.
#include "karez/comm/rendezvous/store.h"

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
void append(std::string& out, std::uint32_t number) { out.append(reinterpret_cast<const char*>(&number), 4); }
std::uint32_t read_number(std::string_view bytes, std::size_t offset) {
  std::uint32_t out = 0;
  std::memcpy(&out, bytes.data() + offset, 4);
  return out;
}
std::string take_text(std::string_view& bytes, std::size_t count) {
  std::string out(bytes.substr(0, count));
  bytes.remove_prefix(count);
  return out;
}
}  // namespace

std::string encode(const StoreRequest& request) {
  std::string out;
  append(out, static_cast<std::uint32_t>(request.op));
  append(out, static_cast<std::uint32_t>(request.key.size()));
  append(out, static_cast<std::uint32_t>(request.value.size()));
  append(out, request.number);
  return out + request.key + request.value;
}

bool decode(std::string_view& bytes, StoreRequest& request) {
  if (bytes.size() < StoreRequest::header_bytes) return false;
  std::uint32_t op = read_number(bytes, 0), key = read_number(bytes, 4), value = read_number(bytes, 8),
                number = read_number(bytes, 12);
  require(ErrorKind::peer, op >= 1 && op <= 7, "a request of unknown kind ", op);
  require(ErrorKind::peer,
          key <= StoreRequest::max_key && value <= StoreRequest::max_value && number <= StoreRequest::max_number,
          "a request exceeds the limits: key of ", key, " bytes, value of ", value, " bytes, number ", number);
  if (bytes.size() - StoreRequest::header_bytes < std::size_t{key} + value) return false;
  bytes.remove_prefix(StoreRequest::header_bytes);
  request.op = static_cast<StoreRequest::Op>(op);
  request.number = number;
  request.key = take_text(bytes, key);
  request.value = take_text(bytes, value);
  return true;
}

std::string encode(const StoreReply& reply) {
  std::string out;
  append(out, static_cast<std::uint32_t>(reply.status));
  append(out, static_cast<std::uint32_t>(reply.value.size()));
  return out + reply.value;
}

bool decode(std::string_view& bytes, StoreReply& reply) {
  if (bytes.size() < StoreReply::header_bytes) return false;
  std::uint32_t status = read_number(bytes, 0), value = read_number(bytes, 4);
  require(ErrorKind::peer, status <= 2 && value <= StoreRequest::max_value, "invalid reply of the store: status ",
          status, ", value of ", value, " bytes");
  if (bytes.size() - StoreReply::header_bytes < value) return false;
  bytes.remove_prefix(StoreReply::header_bytes);
  reply.status = static_cast<StoreReply::Status>(status);
  reply.value = take_text(bytes, value);
  return true;
}

void Store::join(Client client) { clients_[client] = {}; }

void Store::take(Client client, std::string_view bytes) {
  ClientState& state = clients_.at(client);
  state.bytes.append(bytes);
  std::string_view remaining = state.bytes;
  for (StoreRequest request; decode(remaining, request);) {
    require(ErrorKind::peer, !state.waits || request.op == StoreRequest::Op::goodbye,
            "a request arrived before the reply to the previous one");
    serve(client, state, request);
  }
  state.bytes.erase(0, state.bytes.size() - remaining.size());
}

void Store::reply(Client client, StoreReply::Status status, std::string value) {
  if (auto entry = clients_.find(client); entry != clients_.end()) entry->second.waits = false;
  send_(client, {status, std::move(value)});
}

void Store::serve(Client client, ClientState& state, StoreRequest& request) {
  using Op = StoreRequest::Op;
  using Status = StoreReply::Status;
  switch (request.op) {
    case Op::hello: {
      const std::string name = request.value.empty() ? "?" : request.value.substr(0, 256);
      for (const auto& [other, member] : clients_) {
        if (other == client || member.name.empty() || member.left_in_order || member.rank != request.number) continue;
        values_[duplicate_rank_key] =
            cat("two processes claim rank ", request.number, ": ", member.name, ", and ", name, ", which is rejected");
        return reply(client, Status::error, cat("rank ", request.number, " has joined already: ", member.name));
      }
      state.name = name;
      state.rank = request.number;
      return reply(client, Status::ok);
    }
    case Op::set: {
      auto old = values_.find(request.key);
      const std::size_t old_bytes = old == values_.end() ? 0 : old->second.size() + request.key.size();
      const std::size_t new_bytes = bytes_ - old_bytes + request.key.size() + request.value.size();
      if (new_bytes > max_bytes)
        return reply(client, Status::error, cat("the store holds ", bytes_, " bytes and accepts at most ", max_bytes));
      bytes_ = new_bytes;
      set(request);
      return reply(client, Status::ok);
    }
    case Op::get:
    case Op::wait: {
      if (auto entry = values_.find(request.key); entry != values_.end())
        return reply(client, Status::ok, entry->second);
      if (request.op == Op::get) return reply(client, Status::not_found);
      if (!departure_.empty()) return reply(client, Status::error, departure_);
      state.waits = true;
      waiting_[request.key].push_back(client);
      return;
    }
    case Op::barrier: {
      if (!departure_.empty()) return reply(client, Status::error, departure_);
      Barrier& barrier = barriers_[request.key];
      if (!barrier.arrived.empty() && barrier.number != request.number)
        return reply(client, Status::error,
                     cat("barrier '", request.key, "' expects ", barrier.number, " processes, but this client expects ",
                         request.number));
      barrier.number = request.number;
      barrier.arrived.push_back(client);
      state.waits = true;
      if (barrier.arrived.size() < request.number) return;
      const std::vector<Client> arrived = std::move(barrier.arrived);
      barriers_.erase(request.key);
      for (Client member : arrived) reply(member, Status::ok);
      return;
    }
    case Op::check:
      return departure_.empty() ? reply(client, Status::not_found) : reply(client, Status::error, departure_);
    case Op::goodbye:
      state.left_in_order = request.value.empty();
      state.reason = std::move(request.value);
      return reply(client, Status::ok);
  }
}

void Store::set(StoreRequest& request) {
  auto entry = waiting_.find(request.key);
  if (entry != waiting_.end()) {
    const std::vector<Client> waiting = std::move(entry->second);
    waiting_.erase(entry);
    for (Client client : waiting) reply(client, StoreReply::Status::ok, request.value);
  }
  values_[request.key] = std::move(request.value);
}

void Store::leave(Client client, const std::string& reason) {
  auto entry = clients_.find(client);
  if (entry == clients_.end()) return;
  const ClientState& state = entry->second;
  const bool unexpected = !state.name.empty() && !state.left_in_order;
  if (unexpected && departure_.empty()) {
    departure_ = cat("rank ", state.rank, " (", state.name, ") ");
    if (!state.reason.empty()) departure_ += state.reason;
    else if (reason.empty()) departure_ += "has exited";
    else departure_ += cat("has exited or cannot be reached: its connection to the store ended with '", reason, "'");
  }
  clients_.erase(entry);
  std::vector<Client> failed;
  // Removes the client from a list; returns true if the list itself must be removed.
  auto drop = [&](std::vector<Client>& clients) {
    clients.erase(std::remove(clients.begin(), clients.end(), client), clients.end());
    if (unexpected) failed.insert(failed.end(), clients.begin(), clients.end());
    return unexpected || clients.empty();
  };
  for (auto key = waiting_.begin(); key != waiting_.end();)
    key = drop(key->second) ? waiting_.erase(key) : std::next(key);
  for (auto key = barriers_.begin(); key != barriers_.end();)
    key = drop(key->second.arrived) ? barriers_.erase(key) : std::next(key);
  for (Client other : failed) reply(other, StoreReply::Status::error, departure_);
}

}  // namespace karez::comm
