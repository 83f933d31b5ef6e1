// Implements DeferredReads.
#include "karez/api/trace/deferred_reads.h"

#include <utility>

namespace karez {
namespace {

constexpr std::size_t max_list = 256;     // a longer list is searched for expressions that need not run any more
constexpr std::size_t max_deferred = 64;  // of those that must run

}  // namespace

void DeferredReads::add(const std::shared_ptr<Expression>& expression, const Functions& functions) {
  bool is_full = false;
  {
    std::lock_guard lock(mutex_);
    functions_ = functions;
    list_.push_back(expression);
    if (list_.size() >= max_list) {
      std::erase_if(list_, [&](const auto& weak) {
        const auto other = weak.lock();
        return other == nullptr || !functions.may_be_read(*other);
      });
      is_full = list_.size() > max_deferred;
    }
    size_ = list_.size();
  }
  if (is_full) run();
}

void DeferredReads::run() {
  if (size_ == 0) return;
  std::vector<std::shared_ptr<Expression>> expressions;
  Functions functions;
  {
    std::lock_guard lock(mutex_);
    functions = functions_;
    // The latest expressions first: they include the expressions that they need.
    for (auto weak = list_.rbegin(); weak != list_.rend(); ++weak)
      if (auto expression = weak->lock()) expressions.push_back(std::move(expression));
    list_.clear();
    size_ = 0;
  }
  std::size_t next = 0;
  try {
    for (; next < expressions.size(); ++next) functions.run(*expressions[next]);
  } catch (...) {  // for example Ctrl-C: the others must still run before variables change
    std::lock_guard lock(mutex_);
    list_.insert(list_.begin(), expressions.rbegin(), expressions.rend() - static_cast<std::ptrdiff_t>(next));
    size_ = list_.size();
    throw;
  }
}

}  // namespace karez
