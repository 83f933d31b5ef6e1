// Failing links: links that fail on demand, for tests, because local links cannot fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "karez/base/error.h"
#include "karez/comm/namespace.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

// Makes all links of the endpoints to which it is applied fail at the same time. Sending message number `at` (counted
// from 0 over all these links) or any later message throws. A larger `at` repairs the links. The object must outlive
// the endpoints.
struct FailingLinks {
  std::atomic<std::int64_t> at{INT64_MAX}, sent{0};

  void operator()(Endpoint& endpoint);
};

class FailingLink : public Link {
 public:
  FailingLink(FailingLinks& links, std::unique_ptr<Link> link, int from, int to)
      : links_(links),
        link_(std::move(link)),
        from_(from),
        to_(to) {}
  void post_receive(std::byte* into, std::int64_t bytes) override { link_->post_receive(into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override {
    require(ErrorKind::peer, links_.sent++ < links_.at, "the link from member ", from_, " to member ", to_, " broke");
    link_->send(from, bytes);
  }
  std::int64_t received() const override { return link_->received(); }
  std::int64_t sent() const override { return link_->sent(); }
  std::int64_t bytes_sent() const override { return link_->bytes_sent(); }
  int depth() const override { return link_->depth(); }

 private:
  FailingLinks& links_;
  std::unique_ptr<Link> link_;
  int from_, to_;
};

inline void FailingLinks::operator()(Endpoint& endpoint) {
  for (int peer = 0; peer < endpoint.members(); ++peer) {
    if (peer == endpoint.member()) continue;
    std::unique_ptr<Link> link = endpoint.connect(peer, nullptr);
    endpoint.connect(peer, std::make_unique<FailingLink>(*this, std::move(link), endpoint.member(), peer));
  }
}

}  // namespace karez::comm
