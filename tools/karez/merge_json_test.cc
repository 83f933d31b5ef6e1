// Tests of merged traces.
#include "tools/karez/merge_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::tools {
namespace {

using testing::HasSubstr;

std::string trace(const char* origin, int process, const char* time) {
  return cat(R"({"otherData":{"lost_events":1,"origin_ns":)", origin,
             R"(},"traceEvents":[{"args":{"name":"rank"},"name":"process_name","ph":"M","pid":)", process,
             R"(,"tid":0},{"dur":1.5,"name":"a","ph":"X","pid":)", process, R"(,"tid":0,"ts":)", time, "}]}\n");
}

TEST(MergeTraces, TimesAreRelativeToTheFirstOrigin) {
  EXPECT_EQ(
      merge_traces({{"a", trace("1700000000000002000", 0, "5.001")}, {"b", trace("1700000000000000500", 1, "7.25")}}),
      R"({"displayTimeUnit":"ns","otherData":{"lost_events":2,"origin_ns":1700000000000000500},"traceEvents":[)"
      R"({"args":{"name":"rank"},"name":"process_name","ph":"M","pid":0,"tid":0},)"
      R"({"dur":1.5,"name":"a","ph":"X","pid":0,"tid":0,"ts":6.501},)"
      R"({"args":{"name":"rank"},"name":"process_name","ph":"M","pid":1,"tid":0},)"
      R"({"dur":1.5,"name":"a","ph":"X","pid":1,"tid":0,"ts":7.25}]})"
      "\n");
}

TEST(MergeTraces, ProcessesOfSeveralFilesStayApart) {
  const std::string text =
      merge_traces({{"a", trace("0", 0, "1")}, {"b", trace("0", 0, "2")}, {"c", trace("0", 1, "3")}});
  EXPECT_THAT(text, HasSubstr(R"("pid":0,"tid":0,"ts":1.0)"));
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"tid":0,"ts":2.0)"));
  EXPECT_THAT(text, HasSubstr(R"("pid":2,"tid":0,"ts":3.0)"));
}

TEST(MergeTraces, AFileThatIsNotATraceIsNamed) {
  for (const char* text : {"", "{", "[]", "{}", R"({"otherData":{"origin_ns":1},"traceEvents":{}})",
                           R"({"otherData":{"origin_ns":"x"},"traceEvents":[]})",
                           R"({"otherData":{"origin_ns":1},"traceEvents":[{"ph":"X","pid":0}]})",
                           R"({"otherData":{"origin_ns":1},"traceEvents":[7]})"})
    EXPECT_THAT(base::error_of([&] {
                  merge_traces({{"x.json", text}});
                }),
                HasSubstr("x.json is not a trace that a Karez program has written: "))
        << text;
}

}  // namespace
}  // namespace karez::tools
