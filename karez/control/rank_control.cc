// Connects the agreement and the heartbeat to the other ranks and to the session.
#include "karez/control/rank_control.h"

#include <chrono>
#include <utility>

#include "karez/base/hash.h"
#include "karez/base/log.h"

namespace karez::control {

RankControl::RankControl(comm::Peers& peers, const HangTimeouts& timeouts, Callbacks callbacks)
    : peers_(peers),
      timeouts_(timeouts),
      callbacks_(std::move(callbacks)),
      agreement_({.rank = peers.rank(),
                  .ranks = peers.ranks(),
                  .open =
                      [&peers](int rank, comm::Notifier& notifier) {
                        return peers.control(rank).open(hash_text("agreement"), ControlLinks::depth, notifier);
                      },
                  .warn_after = std::chrono::duration<double>(timeouts.peer_timeout),
                  .name = [&peers](int rank) { return peers.name(rank); }},
                 {callbacks_.ended, callbacks_.invalidated, callbacks_.failed}) {}

std::optional<std::pair<int, int>> RankControl::differing_ranks(std::uint64_t op) const {
  const auto found = agreement_.mismatch();
  if (!found || found->op != op) return std::nullopt;
  return std::pair(found->ranks[0], found->ranks[1]);
}

void RankControl::start_heartbeat() {
  heartbeat_ = std::make_unique<Heartbeat>(
      peers_, timeouts_,
      Heartbeat::Callbacks{callbacks_.state, [this](const HangDiagnosis& diagnosis) { on_hang(diagnosis); }});
}

void RankControl::on_hang(const HangDiagnosis& diagnosis) {
  if (diagnosis.kind == HangDiagnosis::Kind::slow_call) return note(LogLevel::warning, diagnosis.text);
  const ErrorKind kind = diagnosis.kind == HangDiagnosis::Kind::unreachable ? ErrorKind::peer : ErrorKind::hang;
  agreement_.fail(Error(kind, diagnosis.text), diagnosis.rank < 0 ? std::nullopt : std::optional(diagnosis.rank));
}

runtime::MakeControl rank_control(comm::Peers& peers, const HangTimeouts& timeouts) {
  return [&peers, timeouts](runtime::Control::Callbacks callbacks) {
    return std::make_unique<RankControl>(peers, timeouts, std::move(callbacks));
  };
}

}  // namespace karez::control
