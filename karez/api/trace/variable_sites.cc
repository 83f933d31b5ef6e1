// Implements Sites. Each thread has one Sites object.
#include "karez/api/trace/variable_sites.h"

namespace karez {

const std::shared_ptr<Sites>& thread_sites() {
  thread_local const std::shared_ptr<Sites> sites = std::make_shared<Sites>();
  return sites;
}

void Sites::restart() {
  next = 0;
  std::lock_guard lock(mutex);
  parameter_counts.clear();
}

SitesReference::SitesReference() : sites_(thread_sites()) { ++sites_->worlds; }
SitesReference::~SitesReference() {
  if (--sites_->worlds == 0) sites_->restart();
}

}  // namespace karez
