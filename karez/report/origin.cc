// Splits the origin text of a call into op, line and module.
#include "karez/report/origin.h"

namespace karez::report {

Origin origin_of(std::string_view where) {
  Origin out;
  if (!where.empty() && where.back() == ')') {
    if (const std::size_t open = where.rfind(" ("); open != std::string_view::npos) {
      out.module = where.substr(open + 2, where.size() - open - 3);
      where = where.substr(0, open);
    }
  }
  const std::string_view gradient = "grad";
  if (out.module == gradient) out.module.clear();
  else if (out.module.size() > gradient.size() && out.module.ends_with(".grad"))
    out.module.resize(out.module.size() - gradient.size() - 1);
  const std::size_t at = where.find(" at ");
  out.op = where.substr(0, at);
  if (at != std::string_view::npos) out.line = where.substr(at + 4);
  else if (out.op.find(':') != std::string::npos) out.line.swap(out.op);  // the text of an actor has only a line
  return out;
}

}  // namespace karez::report
