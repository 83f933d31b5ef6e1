// The store's requests and their effects.
#include "karez/comm/store.h"

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
void put(std::string& out, std::uint32_t number) { out.append(reinterpret_cast<const char*>(&number), 4); }
std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  std::memcpy(&out, bytes.data() + at, 4);
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
  put(out, static_cast<std::uint32_t>(request.op));
  put(out, static_cast<std::uint32_t>(request.key.size()));
  put(out, static_cast<std::uint32_t>(request.value.size()));
  put(out, request.number);
  return out + request.key + request.value;
}

bool decode(std::string_view& bytes, StoreRequest& request) {
  if (bytes.size() < StoreRequest::header_bytes) return false;
  std::uint32_t op = number_at(bytes, 0), key = number_at(bytes, 4), value = number_at(bytes, 8),
                number = number_at(bytes, 12);
  require(ErrorKind::peer, op >= 1 && op <= 7, "a request of kind ", op, " to the store");
  require(ErrorKind::peer,
          key <= StoreRequest::max_key && value <= StoreRequest::max_value && number <= StoreRequest::max_number,
          "a request to the store with a key of ", key, " bytes, a value of ", value, " and the number ", number);
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
  put(out, static_cast<std::uint32_t>(reply.status));
  put(out, static_cast<std::uint32_t>(reply.value.size()));
  return out + reply.value;
}

bool decode(std::string_view& bytes, StoreReply& reply) {
  if (bytes.size() < StoreReply::header_bytes) return false;
  std::uint32_t status = number_at(bytes, 0), value = number_at(bytes, 4);
  require(ErrorKind::peer, status <= 2 && value <= StoreRequest::max_value, "a reply of the store of kind ", status,
          " and ", value, " bytes");
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
  std::string_view rest = state.bytes;
  for (StoreRequest request; decode(rest, request);) {
    require(ErrorKind::peer, !state.waits || request.op == StoreRequest::Op::goodbye,
            "a request to the store before the answer to the last one");
    serve(client, state, request);
  }
  state.bytes.erase(0, state.bytes.size() - rest.size());
}

void Store::reply(Client client, StoreReply::Status status, std::string value) {
  if (auto at = clients_.find(client); at != clients_.end()) at->second.waits = false;
  send_(client, {status, std::move(value)});
}

void Store::serve(Client client, ClientState& state, StoreRequest& request) {
  using Op = StoreRequest::Op;
  using Status = StoreReply::Status;
  switch (request.op) {
    case Op::hello: {
      const std::string name = request.value.empty() ? "?" : request.value.substr(0, 256);
      for (const auto& [other, known] : clients_) {
        if (other == client || known.name.empty() || known.goodbye || known.rank != request.number) continue;
        values_[duplicate_rank_key] =
            cat("two processes claim rank ", request.number, ": ", known.name, ", and ", name, ", which is rejected");
        return reply(client, Status::error, cat("rank ", request.number, " has joined already: ", known.name));
      }
      state.name = name;
      state.rank = request.number;
      return reply(client, Status::ok);
    }
    case Op::set: {
      auto old = values_.find(request.key);
      std::size_t before = old == values_.end() ? 0 : old->second.size() + request.key.size();
      if (bytes_ - before + request.key.size() + request.value.size() > max_bytes)
        return reply(client, Status::error, cat("the store holds ", bytes_, " bytes and accepts at most ", max_bytes));
      bytes_ = bytes_ - before + request.key.size() + request.value.size();
      set(request);
      return reply(client, Status::ok);
    }
    case Op::get:
    case Op::wait: {
      if (auto at = values_.find(request.key); at != values_.end()) return reply(client, Status::ok, at->second);
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
                     cat("barrier '", request.key, "' expects ", barrier.number, " processes, but a client gives ",
                         request.number));
      barrier.number = request.number;
      barrier.arrived.push_back(client);
      state.waits = true;
      if (barrier.arrived.size() < request.number) return;
      std::vector<Client> here = std::move(barrier.arrived);
      barriers_.erase(request.key);
      for (Client each : here) reply(each, Status::ok);
      return;
    }
    case Op::check:
      return departure_.empty() ? reply(client, Status::not_found) : reply(client, Status::error, departure_);
    case Op::goodbye:
      state.goodbye = request.value.empty();
      state.why = std::move(request.value);
      return reply(client, Status::ok);
  }
}

void Store::set(StoreRequest& request) {
  auto at = waiting_.find(request.key);
  if (at != waiting_.end()) {
    std::vector<Client> here = std::move(at->second);
    waiting_.erase(at);
    for (Client each : here) reply(each, StoreReply::Status::ok, request.value);
  }
  values_[request.key] = std::move(request.value);
}

void Store::leave(Client client, const std::string& why) {
  auto at = clients_.find(client);
  if (at == clients_.end()) return;
  bool missed = !at->second.name.empty() && !at->second.goodbye;
  if (missed && departure_.empty()) {
    departure_ = cat("rank ", at->second.rank, " (", at->second.name, ") ");
    if (!at->second.why.empty()) departure_ += at->second.why;
    else if (why.empty()) departure_ += "has exited";
    else departure_ += cat("has exited or cannot be reached: its connection to the store ended with '", why, "'");
  }
  clients_.erase(at);
  std::vector<Client> told;
  auto drop = [&](std::vector<Client>& here) {
    here.erase(std::remove(here.begin(), here.end(), client), here.end());
    if (missed) told.insert(told.end(), here.begin(), here.end());
    return missed || here.empty();
  };
  for (auto each = waiting_.begin(); each != waiting_.end();)
    each = drop(each->second) ? waiting_.erase(each) : std::next(each);
  for (auto each = barriers_.begin(); each != barriers_.end();)
    each = drop(each->second.arrived) ? barriers_.erase(each) : std::next(each);
  for (Client each : told) reply(each, StoreReply::Status::error, departure_);
}

}  // namespace karez::comm
