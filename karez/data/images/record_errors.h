// Skips records with damaged contents.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/log.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/element.h"

namespace karez::data {

// Returns the element that a function makes. If `skip` is true, an error of the kind `data` makes a skipped element;
// the first one of each function is logged.
class RecordErrors {
 public:
  RecordErrors(std::string_view function, bool skip) : function_(function), skip_(skip) {}
  template <class Make> Element element(Make&& make) const {
    if (!skip_) return std::forward<Make>(make)();
    try {
      return std::forward<Make>(make)();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::data) throw;
      if (!logged_->exchange(true))
        note(LogLevel::warning, function_,
             ": a record is skipped, others are skipped without a message: ", std::string_view(error.what()));
      return skipped_element();
    }
  }

 private:
  std::string_view function_;
  bool skip_;
  std::shared_ptr<std::atomic<bool>> logged_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace karez::data
