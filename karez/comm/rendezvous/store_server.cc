// The store server handles its clients on the reactor; the store client makes blocking calls.
#include "karez/comm/rendezvous/store_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "karez/base/error.h"
#include "karez/base/log.h"

namespace karez::comm {

struct StoreServer::Client : EventHandler {
  Client(StoreServer& server, Store::Client number, Descriptor socket)
      : server(server),
        number(number),
        socket(std::move(socket)) {}
  ~Client() { server.reactor_.remove(registration); }

  void on_events(std::uint32_t) noexcept override {
    StoreServer& owner = server;
    try {
      std::byte bytes[16 << 10];
      while (!closed) {
        auto n = recv(socket.get(), bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
          end(n < 0 ? std::strerror(errno) : "");
        } else {
          owner.store_.take(number, {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n)});
        }
      }
      flush();
    } catch (const std::exception& error) {
      note(LogLevel::warning, "the store drops a client: ", error.what());
      end("");
    }
    owner.drop_closed_clients();  // may destroy *this
  }

  void flush() {
    while (!out.empty() && !closed) {
      auto n = send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return end(std::strerror(errno));
      out.erase(0, static_cast<std::size_t>(n));
    }
  }

  void end(std::string reason) {
    if (!closed) server.closed_clients_.push_back(number);
    closed = true;
    end_reason = std::move(reason);
  }

  StoreServer& server;
  Store::Client number;
  Descriptor socket;
  Reactor::Registration registration;
  std::string out;  // unsent bytes: at most one reply, since a client has one request at a time
  bool closed = false;
  std::string end_reason;  // the system's reason; empty if the client closed the connection
};

StoreServer::StoreServer(Reactor& reactor, const Token& token, Address address, AcceptorLimits limits,
                         Seconds unreachable)
    : reactor_(reactor),
      unreachable_(unreachable),
      store_([this](Store::Client client, const StoreReply& reply) {
        auto entry = clients_.find(client);
        if (entry == clients_.end()) return;
        entry->second->out += encode(reply);
        entry->second->flush();
      }) {
  acceptor_ = std::make_unique<Acceptor>(
      reactor, std::move(address), token, store_purpose,
      [this](Descriptor socket, std::uint32_t) { accept_client(std::move(socket)); }, limits);
}

StoreServer::~StoreServer() {
  reactor_.with_dispatch_paused([this] {
    acceptor_.reset();
    clients_.clear();
  });
}

void StoreServer::accept_client(Descriptor socket) {
  set_tcp_options(socket.get(), unreachable_);
  Store::Client number = next_client_++;
  store_.join(number);
  Client& client = *clients_.emplace(number, std::make_unique<Client>(*this, number, std::move(socket))).first->second;
  reactor_.watch(client.socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, client, client.registration);
}

void StoreServer::drop_closed_clients() {
  while (!closed_clients_.empty()) {
    Store::Client number = closed_clients_.back();
    closed_clients_.pop_back();
    // Connections within one host do not break.
    const std::string reason = address().is_name() ? "" : clients_.at(number)->end_reason;
    store_.leave(number, reason);  // replies to other clients, whose connections may turn out to be closed
    clients_.erase(number);
  }
}

StoreClient::StoreClient(const Address& address, const Token& token, int rank, const std::string& name, Seconds timeout,
                         Seconds reply_timeout, ListenerWait wait)
    : address_(address),
      timeout_(timeout),
      reply_timeout_(reply_timeout > timeout ? reply_timeout : timeout) {
  if (wait.timeout <= Seconds(0)) wait.timeout = timeout;
  socket_ = dial_and_authenticate("the store", address_, token, store_purpose, static_cast<std::uint32_t>(rank),
                                  timeout, wait);
  set_tcp_options(socket_.get(), timeout_);
  request({StoreRequest::Op::hello, static_cast<std::uint32_t>(rank), "", name}, "joining it");
}

void StoreClient::disconnect() {
  std::lock_guard lock(mutex_);
  socket_.close();
}

StoreClient::~StoreClient() {
  if (!socket_) return;
  send_goodbye("");
  shutdown(socket_.get(), SHUT_WR);
}

void StoreClient::send_goodbye(const std::string& reason) {
  std::string bytes = encode(StoreRequest{StoreRequest::Op::goodbye, 0, "", reason});
  [[maybe_unused]] auto sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

StoreReply StoreClient::request(const StoreRequest& request, const std::string& action, Seconds reply_timeout) {
  require(request.key.size() <= StoreRequest::max_key && request.value.size() <= StoreRequest::max_value,
          "the store accepts keys of up to ", StoreRequest::max_key, " bytes and values of up to ",
          StoreRequest::max_value, " bytes, got a key '", request.key.substr(0, 40), "' of ", request.key.size(),
          " bytes and a value of ", request.value.size(), " bytes");
  std::lock_guard lock(mutex_);
  StoreReply reply;
  try {
    require(ErrorKind::peer, static_cast<bool>(socket_), "the connection is closed");
    std::string bytes = encode(request);
    send_all(socket_.get(), std::as_bytes(std::span(bytes)), timeout_);
    std::string answer(StoreReply::header_bytes, '\0');
    receive_all(socket_.get(), std::as_writable_bytes(std::span(answer)),
                reply_timeout > Seconds(0) ? reply_timeout : reply_timeout_);
    std::string_view remaining = answer;
    if (!decode(remaining, reply)) {  // the header is valid; the value follows
      std::uint32_t size = 0;
      std::memcpy(&size, answer.data() + 4, 4);
      answer.resize(StoreReply::header_bytes + size);
      receive_all(socket_.get(), std::as_writable_bytes(std::span(answer)).subspan(StoreReply::header_bytes), timeout_);
      remaining = answer;
      decode(remaining, reply);
    }
  } catch (const Error& error) {
    if (socket_) send_goodbye(cat("has given up ", action, ": ", error.what()));  // otherwise reported as exited
    socket_.close();  // a late reply would be mistaken for the reply to another request
    fail(ErrorKind::peer, "the store at ", print(address_), ", ", action, ": ", error.what());
  }
  if (reply.status == StoreReply::Status::error) fail(ErrorKind::peer, reply.value);
  return reply;
}

void StoreClient::set(const std::string& key, const std::string& value) {
  request({StoreRequest::Op::set, 0, key, value}, cat("setting '", key, "'"));
}

std::optional<std::string> StoreClient::get(const std::string& key, Seconds reply_timeout) {
  StoreReply reply = request({StoreRequest::Op::get, 0, key, ""}, cat("getting '", key, "'"), reply_timeout);
  if (reply.status == StoreReply::Status::not_found) return std::nullopt;
  return reply.value;
}

std::string StoreClient::wait(const std::string& key) {
  return request({StoreRequest::Op::wait, 0, key, ""}, cat("waiting for '", key, "'")).value;
}

void StoreClient::barrier(const std::string& key, int processes, Seconds reply_timeout) {
  request({StoreRequest::Op::barrier, static_cast<std::uint32_t>(processes), key, ""},
          cat("at the barrier '", key, "' of ", processes, " processes"), reply_timeout);
}

std::string StoreClient::local_host() const { return local_address(socket_.get()).host; }

void StoreClient::check() { request({StoreRequest::Op::check, 0, "", ""}, "checking for exited ranks"); }

}  // namespace karez::comm
