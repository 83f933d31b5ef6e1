// CSV files: the columns of each row as text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats/csv_rows.h"

namespace karez::data {
namespace {

struct SelectedColumn {
  CsvColumn column;
  std::size_t place = 0;  // in the row
};

template <class T> bool parse_number(std::string_view text, T& out) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse_number(std::string_view text, bool& out) {
  for (const auto& [word, value] : {std::pair("true", true),
                                    {"True", true},
                                    {"TRUE", true},
                                    {"1", true},
                                    {"false", false},
                                    {"False", false},
                                    {"FALSE", false},
                                    {"0", false}})
    if (text == word) {
      out = value;
      return true;
    }
  return false;
}

HostArray array_of_field(const CsvColumn& column, const std::string& field) {
  if (!column.dtype) return bytes_array({reinterpret_cast<const std::uint8_t*>(field.data()), field.size()});
  return with_type(*column.dtype, [&]<class T>() -> HostArray {
    if constexpr (std::is_arithmetic_v<T>) {
      const std::string_view text = trim(field);
      T value = {};
      if (!text.empty()) {
        if (!parse_number(text, value))
          fail(ErrorKind::data, "column ", quote(column.name), ": ", quote(text.substr(0, 100)), " is not a value of ",
               name_of(*column.dtype));
      } else if (column.missing || std::is_floating_point_v<T>) {
        value = static_cast<T>(column.missing.value_or(std::numeric_limits<double>::quiet_NaN()));
      } else {
        fail(ErrorKind::data, "column ", quote(column.name), ": the value is missing");
      }
      return HostArray::of<T>({}, {value});
    } else {
      fail("from_csv: a column cannot be ", name_of(*column.dtype));  // checked before
    }
  });
}

class CsvReader : public RecordReader {
 public:
  CsvReader(const std::string& path, RecordPlace place, const CsvOptions& format, const FileOptions& options)
      : rows_(path, place, format.delimiter, options) {
    if (!format.header) {
      names_ = format.names;
    } else if (place.byte == 0) {
      read_names(rows_, path);
    } else {
      CsvRows first(path, {}, format.delimiter, options);
      read_names(first, path);
    }
    if (!names_.empty()) select(format.columns, path);
    else columns_ = format.columns;
  }
  std::optional<Element> next() override {
    if (!rows_.next()) return std::nullopt;
    const std::span<const std::string> fields = rows_.fields();
    if (names_.empty()) {  // of the first row without a header
      for (std::size_t i = 0; i < fields.size(); ++i) names_.push_back(cat(i));
      select(columns_, rows_.row_text());
    }
    require(ErrorKind::data, fields.size() == names_.size(), rows_.row_text(), ": the row has ", fields.size(),
            " fields, but there are ", names_.size(), " columns");
    Element out;
    out.structure = structure_;
    try {
      for (const SelectedColumn& selected : selected_)
        out.fields.emplace_back(array_of_field(selected.column, fields[selected.place]));
    } catch (const Error& error) { fail(ErrorKind::data, rows_.row_text(), ": ", error.what()); }
    return out;
  }
  RecordPlace place() const override { return rows_.place(); }
  bool can_continue() const override { return rows_.can_continue(); }

 private:
  void read_names(CsvRows& rows, const std::string& path) {
    if (!rows.next()) return;  // an empty file has no rows
    names_.assign(rows.fields().begin(), rows.fields().end());
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (std::count(names_.begin(), names_.end(), names_[i]) != 1)
        fail(ErrorKind::data, path, ": the header has two columns with the name ", quote(names_[i]));
  }
  void select(std::vector<CsvColumn> columns, const std::string& place) {
    if (columns.empty())
      for (const std::string& name : names_) columns.push_back({name, {}, {}});
    std::vector<std::string> keys;
    for (CsvColumn& column : columns) {
      const auto found = std::find(names_.begin(), names_.end(), column.name);
      if (found == names_.end())
        fail(ErrorKind::data, place, ": there is no column ", quote(column.name), "; the columns are ",
             join(names_, ", ", [](const std::string& name) { return quote(name); }));
      keys.push_back(column.name);
      selected_.push_back({std::move(column), static_cast<std::size_t>(found - names_.begin())});
    }
    structure_ = dict_structure(std::move(keys));
  }

  CsvRows rows_;
  std::vector<std::string> names_;
  std::vector<CsvColumn> columns_;  // until the names are known
  std::vector<SelectedColumn> selected_;
  StructureRef structure_;
};

void check_options(const CsvOptions& format) {
  require(format.delimiter != '"' && format.delimiter != '\n' && format.delimiter != '\r',
          "from_csv: the delimiter must not be a quote or the end of a line");
  require(!format.header || format.names.empty(), "from_csv: names are only for files without a header");
  for (std::size_t i = 0; i < format.names.size(); ++i)
    if (std::count(format.names.begin(), format.names.end(), format.names[i]) != 1)
      fail("from_csv: two columns have the name ", quote(format.names[i]));
  for (const CsvColumn& column : format.columns) {
    const auto is_column = [&](const CsvColumn& other) { return other.name == column.name; };
    if (std::count_if(format.columns.begin(), format.columns.end(), is_column) != 1)
      fail("from_csv: the column ", quote(column.name), " is selected twice");
    if (column.dtype && is_half(*column.dtype))
      fail("from_csv: column ", quote(column.name), ": the dtype must be f32, f64, i32, i64, u8 or bool, got ",
           column.dtype ? name_of(*column.dtype) : "");
    if (!column.dtype && column.missing)
      fail("from_csv: column ", quote(column.name), ": a missing value needs a dtype");
    const bool exact = !column.missing || with_type(*column.dtype, [&]<class T>() {
      if constexpr (!std::is_integral_v<T>) return true;
      else
        return *column.missing == std::trunc(*column.missing) &&
               *column.missing >= static_cast<double>(std::numeric_limits<T>::min()) &&
               *column.missing < static_cast<double>(std::numeric_limits<T>::max()) + 1;
    });
    if (!exact)
      fail("from_csv: column ", quote(column.name), ": the missing value ", column.missing.value_or(0),
           " is not a value of ", column.dtype ? name_of(*column.dtype) : "text");
  }
}

}  // namespace

Dataset from_csv(std::vector<std::string> paths, const CsvOptions& format, const FileOptions& options) {
  check_options(format);
  std::vector<std::string> columns;
  for (const CsvColumn& column : format.columns)
    columns.push_back(cat(column.name, ": ", column.dtype ? name_of(*column.dtype) : "text"));
  return from_records(
      "from_csv", join(columns, ", "), std::move(paths),
      [format, options](const std::string& path, RecordPlace place) {
        return std::make_unique<CsvReader>(path, place, format, options);
      },
      options);
}

}  // namespace karez::data
