// JSONL files: a JSON document in each line.
#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/simdjson_text.h"
#include "karez/data/formats/text_lines.h"

namespace karez::data {
namespace {

class JsonlReader : public RecordReader {
 public:
  JsonlReader(const std::string& path, RecordPlace place, const JsonlOptions& format, const FileOptions& options)
      : format_(format),
        lines_(path, place, options) {
    std::vector<std::string> names;
    for (const JsonField& field : format_.fields) names.push_back(field.name);
    structure_ = dict_structure(std::move(names));
  }
  std::optional<Element> next() override {
    while (true) {
      const std::optional<std::string_view> line = lines_.next();
      if (!line) return std::nullopt;
      if (line->find_first_not_of(" \t\r") == line->npos) continue;
      try {
        parser_.parse(*line);
        return make(*line);
      } catch (const Error& error) {
        if (error.kind != ErrorKind::data) throw;
        fail(ErrorKind::data, lines_.line_text(), ": ", error.what());
      }
    }
  }
  RecordPlace place() const override { return lines_.place(); }
  bool can_continue() const override { return lines_.can_continue(); }

 private:
  Element make(std::string_view line) {
    if (format_.make)
      return format_.make([this](const std::function<void(const JsonToken&)>& handle) { parser_.walk(handle); });
    if (format_.fields.empty())
      return element(bytes_array({reinterpret_cast<const std::uint8_t*>(line.data()), line.size()}));
    Element out;
    for (const JsonField& field : format_.fields) out.fields.emplace_back(parser_.field(field));
    out.structure = structure_;
    return out;
  }

  JsonlOptions format_;
  TextLines lines_;
  JsonParser parser_;
  StructureRef structure_;
};

}  // namespace

Dataset from_jsonl(std::vector<std::string> paths, const JsonlOptions& format, const FileOptions& options) {
  std::vector<std::string> fields;
  for (const JsonField& field : format.fields) {
    const bool valid = !field.dtype || !is_half(*field.dtype);
    require(valid, "from_jsonl: the dtype of a field must be f32, f64, i32, i64, u8 or bool, got ",
            field.dtype ? name_of(*field.dtype) : "");
    fields.push_back(cat(field.name, ": ", field.dtype ? name_of(*field.dtype) : "text"));
  }
  return from_records(
      "from_jsonl", join(fields, ", "), std::move(paths),
      [format, options](const std::string& path, RecordPlace place) {
        return std::make_unique<JsonlReader>(path, place, format, options);
      },
      options);
}

}  // namespace karez::data
