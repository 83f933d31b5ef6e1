// Skips records with damaged contents.
#pragma once

#include <string_view>
#include <utility>

#include "karez/base/error.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/element.h"
#include "karez/data/stages/skip_counts.h"

namespace karez::data {

// Returns the element that a function makes. If `skip` is true, an error of the kind `data` makes a skipped element,
// which is counted.
class RecordErrors {
 public:
  RecordErrors(std::string_view function, bool skip, SkipReport report)
      : function_(function),
        skip_(skip),
        report_(std::move(report)) {}
  template <class Make> Element element(Make&& make) const {
    if (!skip_) return std::forward<Make>(make)();
    try {
      return std::forward<Make>(make)();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::data) throw;
      count_skipped(function_, {1, error.what()}, report_);
      return skipped_element();
    }
  }

 private:
  std::string_view function_;
  bool skip_;
  SkipReport report_;
};

}  // namespace karez::data
