// Data sets of the records of files: text, JSONL, CSV, TFRecord, WebDataset and NumPy's formats.
//
// All functions take paths and patterns as `from_files` does. A file whose name ends with .gz or .zst is unpacked while
// it is read. Errors name the file, the record, the byte and what is wrong. The records are streams, whose positions
// contain a byte of a file: a stream that resumes there does not read what is before it, except in a compressed file.
//
// A stream of one file at a time can be divided among ranks and threads by files:
//
//   list_files({"train/*.tfrecord"}).shard(ranks, rank).interleave(
//       [](const Element& e) { return from_tfrecord({path_of(e)}); }, {.cycle = 8, .parallel = true});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/formats/byte_stream.h"
#include "karez/data/namespace.h"
#include "karez/tensor/dtype.h"

namespace karez::data {

enum class OnError {
  raise,  // an invalid record or file ends the stream with an error
  skip,   // it is skipped and counted
};

struct SkippedRecords {
  std::int64_t count = 0;  // a file whose rest cannot be read counts once
  std::string first_error;
};
using SkipReport = std::function<void(const SkippedRecords&)>;
// Adds records to the counts of the stream whose stage this thread executes; outside of streams, reports them at once.
// At the end of the epoch, the counts of each function, such as "from_text" or "decode", are reported. Without
// `report`, a report is a warning in the log.
void count_skipped(std::string_view function, const SkippedRecords& skipped, const SkipReport& report = nullptr);

struct FileOptions {
  OnError on_error = OnError::raise;
  // Sizes in files are compared with this limit before memory is allocated; larger records are errors.
  std::int64_t max_record_bytes = 1 << 28;
  std::int64_t max_file_bytes = 0;  // of a file, unpacked; 0: no limit
  // Called at the end of an epoch if records were skipped, once for all data sets of the same format in a stream; by
  // default, logs a warning.
  SkipReport report = nullptr;
  // Makes the element of a record from what the reader returns.
  std::function<Element(Element)> convert = nullptr;
  // If set, opens the files, whose paths are then not looked up as patterns.
  FileOpener open = nullptr;
};

// An array u8[n] with these bytes.
HostArray bytes_array(std::span<const std::uint8_t> bytes);

// The paths of files, each as u8[n], without reading the files; see from_files. path_of returns the path of an element.
Dataset list_files(std::vector<std::string> paths);
std::string path_of(const Element& element);

// The lines of text files, without \n or \r\n, as u8[n]. Text that is not UTF-8 is an error. A byte order mark at the
// beginning of a file is dropped, here and in from_jsonl and from_csv.
Dataset from_text(std::vector<std::string> paths, const FileOptions& options = {});

// The records of TFRecord files, checked by their checksums: u8[n], or the features of a tf.train.Example if `examples`
// is true; see parse_example.
struct TfrecordOptions {
  bool examples = false;
};
Dataset from_tfrecord(std::vector<std::string> paths, const TfrecordOptions& format = {},
                      const FileOptions& options = {});

// The features of a serialised tf.train.Example as a dict, sorted by name: f32[n] or i64[n], and a list of u8[n] of a
// bytes_list. Features without a value are left out.
Element parse_example(std::span<const std::uint8_t> bytes);

// The samples of tar files in the form of WebDataset. Consecutive files whose names are equal up to the first dot are
// one sample, a dict: "__key__" is that part of the name, with its folder, and each extension has the bytes of a file;
// all are u8[n]. A link, a device and a name outside of the folder, such as "../a.txt", are errors.
Dataset from_webdataset(std::vector<std::string> paths, const FileOptions& options = {});

// A part of a JSON document.
struct JsonToken {
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,
    unsigned_integer,  // above the largest 64-bit integer with a sign
    number,
    text,
    key,  // before each value of a dict
    list,
    list_end,
    dict,
    dict_end
  };
  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  std::uint64_t unsigned_integer = 0;
  double number = 0;
  std::string_view text = {};  // valid during the call
};
// Calls a function with the tokens of a document.
using JsonDocument = std::function<void(const std::function<void(const JsonToken&)>&)>;

struct JsonField {
  std::string name;
  // Null: text, as u8[n]. Otherwise a number or a bool, or lists of these of equal lengths, as an array.
  std::optional<DType> dtype = {};
};
struct JsonlOptions {
  // The fields of each line, which must be a dict with these keys. If empty, elements are the lines, as u8[n].
  std::vector<JsonField> fields = {};
  // Makes the elements from documents instead.
  std::function<Element(const JsonDocument&)> make = nullptr;
};
// The lines of JSONL files: each is a JSON document. Blank lines are ignored. Integers must have at most 64 bits.
Dataset from_jsonl(std::vector<std::string> paths, const JsonlOptions& format = {}, const FileOptions& options = {});

struct CsvColumn {
  std::string name;
  std::optional<DType> dtype = {};  // null: text, as u8[n]; otherwise f32, f64, i32, i64, u8 or bool
  std::optional<double> missing =
      {};  // the value of an empty field; by default NaN, and an error for integers and bool
};
struct CsvOptions {
  char delimiter = ',';
  bool header = true;                   // the first row of each file has the names of the columns
  std::vector<std::string> names = {};  // the names if there is no header; by default "0", "1", ...
  std::vector<CsvColumn> columns = {};  // by default all, as text
};
// The rows of CSV files as dicts of the columns. Fields may be quoted as in RFC 4180, and then contain delimiters,
// newlines, and quotes written twice. Rows end with \n or \r\n. Blank lines are ignored.
Dataset from_csv(std::vector<std::string> paths, const CsvOptions& format = {}, const FileOptions& options = {});

// The rows of arrays in .npy files, whose types must be equal. They can be read by index, except those of compressed
// files and of files that `options.open` opens. A file with an invalid header is always an error.
Dataset from_npy(std::vector<std::string> paths, const FileOptions& options = {});
// The rows of the arrays in .npz files, as dicts of the names of the arrays, which must have equal numbers of rows.
Dataset from_npz(std::vector<std::string> paths, const FileOptions& options = {});

}  // namespace karez::data
