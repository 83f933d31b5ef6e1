// Implements the channel table: opens, finds and erases channels, and reports the connection's failure to all links.
#include "karez/comm/transport/channel_table.h"

namespace karez::comm {

Channel& ChannelTable::open(std::uint64_t number, int depth, Notifier& notifier) {
  auto& channel = channels[number];
  if (channel == nullptr) channel = std::make_unique<Channel>(number);
  require(!channel->is_open() && !channel->closed, "channel ", number, " to ", peer, " has already been opened");
  require(channel->credit_count <= depth, "channel ", number, ": ", peer, " has posted ", channel->credit_count,
          " receives, more than the link's depth of ", depth);
  channel->sends.resize(static_cast<std::size_t>(depth));
  channel->receives.resize(static_cast<std::size_t>(depth));
  channel->credits.resize(static_cast<std::size_t>(depth));
  channel->notifier = &notifier;
  if (const Error* published = failure.load()) notifier.notify_failure(*published);
  return *channel;
}

Channel* ChannelTable::find(std::uint64_t number) const {
  const auto entry = channels.find(number);
  return entry == channels.end() ? nullptr : entry->second.get();
}

Channel* ChannelTable::find_or_create(std::uint64_t number) {
  Channel* channel = find(number);
  if (channel == nullptr) {
    if (channels.size() >= max_channels) return nullptr;
    channel = channels.emplace(number, std::make_unique<Channel>(number)).first->second.get();
  }
  return channel->closed_by_peer ? nullptr : channel;
}

void ChannelTable::erase_if_closed(Channel& c) {
  if (c.close_sent && c.closed_by_peer && c.frames_in_batch == 0 && c.arrival == Channel::Arrival::none &&
      failure.load() == nullptr)
    channels.erase(c.number);
}

void ChannelTable::set_end_reason(const std::string& reason) {
  if (end_reason.empty()) end_reason = reason;
}

void ChannelTable::publish_failure() {
  if (error != nullptr) return;
  error = std::make_unique<Error>(ErrorKind::peer, cat("link to ", peer, ": ", end_reason));
  failure.store(error.get(), std::memory_order_release);
  for (auto& [number, channel] : channels)
    if (channel->is_open()) channel->notifier->notify_failure(*error);
  closable.notify_all();
}

std::string size_mismatch(std::int64_t message_bytes, std::int64_t receive_bytes) {
  return cat("a message of ", message_bytes, " bytes does not match a receive of ", receive_bytes, " bytes");
}

}  // namespace karez::comm
