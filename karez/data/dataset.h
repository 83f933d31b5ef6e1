// Data sets: descriptions of streams of elements, which stages produce when the data set is read.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/element.h"

namespace karez::data {

class DatasetNode;  // a stage in the description of a data set
class Source;

// The key of the random numbers of one element: they depend on the seed, the pass over the source and the record, and
// not on threads, ranks or the order of execution.
struct RandomKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, index = 0;
  std::uint32_t word(std::uint64_t number) const;  // the random word with this number
  double uniform(std::uint64_t number) const;      // in [0, 1)
};

// What `batch` does with the last rows of an epoch if they do not fill a batch.
enum class LastBatch {
  keep,  // emit a smaller batch
  drop,
  pad,  // add rows of zeros; every batch has an additional last field f32[n]: 1 for a row of the data, 0 for padding
};

// Instead of a number of lanes or slots: it is chosen while the data set is read, and changes with the load.
inline constexpr int automatic = std::numeric_limits<int>::min();

// One of several elements for which a function is called together.
struct GroupItem {
  const Element& in;
  RandomKey key = {};                  // of a function with random numbers
  Element out = {};                    // of `map`
  bool keep = true;                    // of `filter`
  std::exception_ptr error = nullptr;  // instead of a result
};
using GroupFunction = std::function<void(std::span<GroupItem>)>;

struct MapOptions {
  int parallel = 1;           // the number of elements that are computed at the same time, or `automatic`
  bool deterministic = true;  // emit elements in the order of the input; otherwise in the order of completion
  std::string name = {};      // of the function, for people: "decode"
  // Of a function that lets other processes compute: the number of elements that are passed to them at the same time
  // (0: `parallel`; at most, if that is automatic), and a text for `explain`: "in 2 processes: 4711, 4712".
  int lanes = 0;
  std::function<std::string()> place = nullptr;
  // Optional, with several lanes: computes several elements in one call, with the results of the function. It is called
  // for elements that are there, if the function takes less than half a millisecond.
  GroupFunction group = nullptr;
};

// What happens to an element that alone has more bytes than DatasetOptions::bytes allows, and to elements that one
// stage holds inside, such as the buffer of `shuffle`, if they have more bytes.
enum class Oversize {
  pass,   // they use more memory than allowed, while nothing is produced ahead
  error,  // they are an error, which names the stage
};

// Options of all stages before a point. An option that is not set stays unchanged. If an option is set at several
// points, the last one counts; if only inputs of a stage such as `zip` set a limit, the lowest limit counts.
struct DatasetOptions {
  // Whether stages that execute several acts at the same time (`parallel`) emit elements in the order of their input,
  // whatever their own options are; otherwise in the order of completion.
  std::optional<bool> deterministic = {};
  // The maximum number of bytes of the arrays of elements between stages, ahead of the reader, and inside of stages: in
  // the buffer of `shuffle`, the cache in memory, and incomplete batches. The size of an element that is being computed
  // is not known; it is assumed to be that of the stage's largest recent element. Objects that are not arrays count as
  // 0 bytes. These bytes are reserved from WorldOptions::memory for plans that are made later.
  std::optional<std::int64_t> bytes = {};
  std::optional<int> cpu = {};            // the maximum number of acts of all stages that run at the same time
  std::optional<Oversize> oversize = {};  // if bytes are limited; by default `pass`
};

struct ShuffleOptions {
  // The number of elements among which the next one is chosen; 0: all, for data sets whose elements can be read in any
  // order.
  std::int64_t buffer = 0;
  std::uint64_t seed = 1;
  bool reshuffle = true;  // another order in each epoch
};

struct InterleaveOptions {
  int cycle = 4;          // the number of data sets that are open at the same time
  int block = 1;          // the number of elements taken from one of them before the next one's turn
  bool parallel = false;  // read the open data sets at the same time
  bool tuned = false;     // choose how many of them are read at the same time while the data set is read
};

// An immutable description; copies are cheap. Every function returns a new data set. An element is an array, or fields
// in a structure (element.h). An epoch is one pass over the data set.
class Dataset {
 public:
  explicit Dataset(std::shared_ptr<const DatasetNode> node) : node_(std::move(node)) {}

  // A function may return skipped_element(): functions after it do not see the record, the reader does not get it, and
  // in a batch with weights it is a row of weight 0, so that the rows of the other records stay where they are.
  Dataset map(std::function<Element(const Element&)> f, const MapOptions& options = {}) const;
  // The same with random numbers: f(element, key).
  Dataset map(std::function<Element(const Element&, const RandomKey&)> f, std::uint64_t seed,
              const MapOptions& options = {}) const;
  Dataset filter(std::function<bool(const Element&)> keep, const MapOptions& options = {}) const;
  // The elements of the data sets that f returns, one data set after the other.
  Dataset flat_map(std::function<Dataset(const Element&)> f) const;
  // The elements of the data sets that f returns, taken in turn from `cycle` of them.
  Dataset interleave(std::function<Dataset(const Element&)> f, const InterleaveOptions& options = {}) const;
  Dataset shuffle(const ShuffleOptions& options = {}) const;
  // n elements as one, with a new first dimension. Their arrays must have equal types.
  Dataset batch(std::int64_t n, LastBatch last = LastBatch::keep) const;
  // The same for arrays of different sizes: each is padded with zeros at the ends of its dimensions to the largest size
  // in the batch, or to the shape given for its field (-1: the largest size).
  Dataset padded_batch(std::int64_t n, std::vector<Shape> shapes = {}, LastBatch last = LastBatch::keep) const;
  // Padded batches of elements of similar length: an element of length l belongs to the first bucket whose boundary is
  // larger than l, or to the last bucket. Bucket i has batches of batch_sizes[i] elements; there is one more size than
  // boundaries.
  Dataset bucket_by_length(std::function<std::int64_t(const Element&)> length, std::vector<std::int64_t> boundaries,
                           std::vector<std::int64_t> batch_sizes, LastBatch last = LastBatch::keep) const;
  Dataset unbatch() const;  // the rows of each element as elements
  // Batches of n consecutive elements; the next window begins `shift` elements later (0: n).
  Dataset window(std::int64_t n, std::int64_t shift = 0, LastBatch last = LastBatch::drop) const;
  Dataset repeat(std::int64_t count = -1) const;  // -1: without end, unless an epoch is empty
  Dataset take(std::int64_t count) const;         // the first elements
  Dataset skip(std::int64_t count) const;         // all but the first elements
  // The elements with these indices, in this order; every element must be readable by its index.
  Dataset subset(std::vector<std::int64_t> indices) const;
  // Every shards-th element, beginning with the element `index`.
  Dataset shard(std::int64_t shards, std::int64_t index) const;
  // Keeps the elements of the first complete epoch, in memory or in a file in this folder; later epochs read them
  // instead of executing the stages before this point. They are the elements of epoch 0, whatever epoch is complete
  // first. The file has no name and exists as long as the data set or an iterator uses it. Elements with objects need
  // a codec.
  Dataset cache() const;
  Dataset cache(std::string folder, ObjectCodec codec = {}) const;
  // The same in a file that is kept, and that later runs of the program read. It appears under its path when it is
  // complete. It contains the text of this data set (`text`), and is an error of the kind `data` for any other: delete
  // the file after a change of a function, which is not part of the text. When the file exists, its elements can be
  // read by index, and their number is known.
  Dataset snapshot(std::string path, ObjectCodec codec = {}) const;
  // Lets the stages before this point produce up to `slots` elements ahead of the stages after it. It may be
  // `automatic`.
  Dataset prefetch(int slots) const;
  // The same data set with other options of the stages before this point.
  Dataset with_options(const DatasetOptions& options) const;

  // The number of elements of an epoch if it is known and every element can be read by its index.
  std::optional<std::int64_t> size() const;
  // Element `index` of an epoch. Throws if the elements cannot be read by their index.
  Element at(std::int64_t index, std::int64_t epoch = 0) const;
  // One line for each stage, the last one first.
  std::string text() const;
  // The same without what may differ between ranks: the indices of shards, and the limits of with_options.
  std::string common_text() const;
  // A table of the actors that execute the stages; see DataIterator::explain.
  std::string explain() const;
  const std::shared_ptr<const DatasetNode>& node() const { return node_; }

 private:
  std::shared_ptr<const DatasetNode> node_;
};

// The numbers begin, begin + step, ... below `end` (above it if step < 0), as i64 scalars.
Dataset range(std::int64_t end);
Dataset range(std::int64_t begin, std::int64_t end, std::int64_t step = 1);
// The rows of arrays with equal numbers of rows; one array gives elements of one array.
Dataset from_arrays(std::vector<HostArray> arrays, StructureRef structure = nullptr);

// The arrays at positions 0, 1, ... size - 1 of a source (source.h).
Dataset from_source(std::shared_ptr<const Source> source, std::int64_t size);

// The elements f(0), f(1), ... f(size - 1); several threads may call f at the same time.
Dataset from_function(std::int64_t size, std::function<Element(std::int64_t index)> f, std::string name = "function");

// The elements read(path) of files. Each text is a path, or a pattern with *, ? and [a-z] as in a shell, whose matches
// are sorted; a pattern without a match, a missing file and a folder are errors. The files are listed once, here. The
// text of the data set contains their number and a hash of their names from the last folder that contains all of them,
// so that ranks may have different folders. Several threads may call `read` at the same time.
Dataset from_files(std::vector<std::string> patterns, std::function<Element(const std::string& path)> read);

// A generator returns the next element, or nothing at the end of the epoch.
struct Generator {
  std::function<std::optional<Element>()> next;
  // Optional: the state as text, and a function that restores it. Without them a stream is resumed by repeating it from
  // its beginning.
  std::function<std::string()> state = nullptr;
  std::function<void(const std::string&)> restore = nullptr;
};
// The elements of the generator that `make` returns for an epoch.
Dataset from_generator(std::function<Generator(std::int64_t epoch)> make, std::string name = "generator");

// Tuples of the elements of several data sets; ends with the shortest.
Dataset zip(std::vector<Dataset> inputs);
// The elements of one data set after the other.
Dataset concat(std::vector<Dataset> inputs);

}  // namespace karez::data
