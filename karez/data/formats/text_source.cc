// Text files by lines.
#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/text_lines.h"

namespace karez::data {
namespace {

class TextReader : public RecordReader {
 public:
  TextReader(const std::string& path, RecordPlace place, const FileOptions& options) : lines_(path, place, options) {}
  std::optional<Element> next() override {
    const std::optional<std::string_view> line = lines_.next();
    if (!line) return std::nullopt;
    return element(bytes_array({reinterpret_cast<const std::uint8_t*>(line->data()), line->size()}));
  }
  RecordPlace place() const override { return lines_.place(); }
  bool can_continue() const override { return lines_.can_continue(); }

 private:
  TextLines lines_;
};

}  // namespace

Dataset from_text(std::vector<std::string> paths, const FileOptions& options) {
  return from_records(
      "from_text", "", std::move(paths),
      [options](const std::string& path, RecordPlace place) {
        return std::make_unique<TextReader>(path, place, options);
      },
      options);
}

}  // namespace karez::data
