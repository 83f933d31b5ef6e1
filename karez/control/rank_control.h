// The control of one rank: its agreement with the other ranks, and its heartbeat, which reports hangs to the agreement.
#pragma once

#include <memory>

#include "karez/comm/rendezvous/peers.h"
#include "karez/control/agreement.h"
#include "karez/control/heartbeat.h"
#include "karez/control/namespace.h"
#include "karez/runtime/control.h"

namespace karez::control {

class RankControl final : public runtime::Control {
 public:
  RankControl(comm::Peers& peers, const HangTimeouts& timeouts, Callbacks callbacks);

  std::uint64_t begin(const OpDescription& op) override { return agreement_.begin(op); }
  void await_begun(std::uint64_t op, const std::function<void()>& while_waiting) override {
    agreement_.await_begun(op, while_waiting);
  }
  void end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end) override { agreement_.end(op, spent, end); }
  void invalidate(std::uint64_t op) override { agreement_.invalidate(op); }
  std::variant<std::uint64_t, Refusal> request(const OpDescription& op,
                                               const std::function<void()>& while_waiting) override {
    return agreement_.request(op, while_waiting);
  }
  void fail(const Error& error) override { agreement_.fail(error); }
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op) const override;
  void start_heartbeat() override;
  void stop_heartbeat() override { heartbeat_.reset(); }

 private:
  void on_hang(const HangDiagnosis& diagnosis);  // called by the heartbeat

  comm::Peers& peers_;
  const HangTimeouts timeouts_;
  const Callbacks callbacks_;
  Agreement agreement_;
  std::unique_ptr<Heartbeat> heartbeat_;  // last, because it uses the agreement
};

// Returns the function for SessionOptions::make_control. `peers` must outlive the session.
runtime::MakeControl rank_control(comm::Peers& peers, const HangTimeouts& timeouts);

}  // namespace karez::control
