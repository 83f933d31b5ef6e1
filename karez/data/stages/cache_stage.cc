// Stages that store the elements of one epoch and read them in later ones: cache and snapshot.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/element_file.h"
#include "karez/data/stages/state_numbers.h"
#include "karez/data/temporary_file.h"

namespace karez::data {
namespace {

// The elements of a complete epoch. Several threads may read them at the same time.
class StoredElements {
 public:
  virtual ~StoredElements() = default;
  virtual std::int64_t size() const = 0;
  virtual Element read(std::int64_t index) const = 0;
  virtual std::int64_t bytes() const { return 0; }  // of arrays in memory
};
using StoredElementsRef = std::shared_ptr<const StoredElements>;

// Stores the elements of one run. A run that ends early drops it.
class ElementCollector {
 public:
  virtual ~ElementCollector() = default;
  virtual void add(const Element& element) = 0;
  virtual StoredElementsRef finish() = 0;
  virtual std::int64_t bytes() const { return 0; }  // of arrays in memory
};

class ElementsInMemory : public StoredElements {
 public:
  ElementsInMemory(std::vector<Element> elements, std::int64_t bytes) : elements_(std::move(elements)), bytes_(bytes) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(elements_.size()); }
  Element read(std::int64_t index) const override { return elements_[static_cast<std::size_t>(index)]; }
  std::int64_t bytes() const override { return bytes_; }

 private:
  std::vector<Element> elements_;
  std::int64_t bytes_;
};

class MemoryCollector : public ElementCollector {
 public:
  void add(const Element& element) override {
    elements_.push_back(element);
    bytes_ += array_bytes(element);
  }
  StoredElementsRef finish() override { return std::make_shared<const ElementsInMemory>(std::move(elements_), bytes_); }
  std::int64_t bytes() const override { return bytes_; }

 private:
  std::vector<Element> elements_;
  std::int64_t bytes_ = 0;
};

class ElementsInFile : public StoredElements {
 public:
  ElementsInFile(std::shared_ptr<const OpenFile> file, ObjectCodec codec) : file_(std::move(file), std::move(codec)) {}
  std::int64_t size() const override { return file_.size(); }
  Element read(std::int64_t index) const override { return file_.read(index); }
  const std::string& description() const { return file_.description(); }

 private:
  ElementFile file_;
};

class CacheFileCollector : public ElementCollector {
 public:
  CacheFileCollector(const std::string& folder, const ObjectCodec& codec)
      : file_(open_unnamed_file(folder, cat("a cache file in ", folder))),
        writer_(file_, "", codec),
        codec_(codec) {}
  void add(const Element& element) override { writer_.add(element); }
  StoredElementsRef finish() override {
    writer_.finish();
    return std::make_shared<const ElementsInFile>(file_, codec_);
  }

 private:
  std::shared_ptr<const OpenFile> file_;
  ElementWriter writer_;
  ObjectCodec codec_;
};

class SnapshotCollector : public ElementCollector {
 public:
  SnapshotCollector(const std::string& path, const std::string& description, const ObjectCodec& codec)
      : file_(path),
        writer_(file_.file(), description, codec),
        codec_(codec) {}
  void add(const Element& element) override { writer_.add(element); }
  StoredElementsRef finish() override {
    writer_.finish();
    file_.commit();
    return std::make_shared<const ElementsInFile>(file_.file(), codec_);
  }

 private:
  TemporaryFile file_;
  ElementWriter writer_;
  ObjectCodec codec_;
};

// What all streams of a data set share.
class ElementStore {
 public:
  using Find = std::function<StoredElementsRef()>;
  using Collect = std::function<std::unique_ptr<ElementCollector>()>;
  // `find` returns elements that another program may have stored, or null.
  ElementStore(Collect collect, Find find) : collect_(std::move(collect)), find_(std::move(find)) {}

  std::unique_ptr<ElementCollector> collect() const { return collect_(); }
  // Null until an epoch is complete.
  StoredElementsRef stored() const {
    std::lock_guard lock(mutex_);
    return stored_;
  }
  StoredElementsRef find() {
    std::lock_guard lock(mutex_);
    if (!stored_ && find_) stored_ = find_();
    return stored_;
  }
  // Until an epoch is complete, its elements are read again.
  Restoration restoration(const StreamState* state) const {
    if (stored()) return {"numbers"};
    return {"replay", number_at(state, 0)};
  }
  // Keeps the elements of the run that is complete first.
  void finish(ElementCollector& collector) {
    if (stored()) return;
    StoredElementsRef elements = collector.finish();
    std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(elements);
  }

 private:
  const Collect collect_;
  const Find find_;
  mutable std::mutex mutex_;
  StoredElementsRef stored_;
};

class StoringBody : public StageBody {
 public:
  StoringBody(std::shared_ptr<ElementStore> store, std::string stage)
      : store_(std::move(store)),
        stage_(std::move(stage)) {}
  void start(const RunStart& run, InputStarts& starts) override {
    collector_ = nullptr;
    epoch_ = run.epoch, next_ = skip_ = 0;
    if (run.state) {
      check_state(*run.state, 1, 0, stage_);
      skip_ = run.state->numbers[0];
      require(ErrorKind::data, skip_ >= 0, "the state of stage ", stage_, " is negative");
    }
    stored_ = store_->find();
    if (stored_) next_ = std::min(skip_, stored_->size());
    else starts.add(0, {0});  // whatever run.epoch is, so that a resumed stream has the same elements
  }
  void stop() override {
    collector_ = nullptr;
    stored_ = nullptr;
  }
  int next_input() const override { return stored_ ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (stored_) {
      if (next_ == stored_->size()) return Emission::last;
      out = stored_->read(next_);
    } else {
      try {
        if (!store(element)) return Emission::last;
      } catch (...) {  // such as a full disk
        collector_ = nullptr;
        throw;
      }
      if (next_ < skip_) {
        ++next_;
        return Emission::nothing;
      }
      out = std::move(*element);
    }
    out.epoch = wrapping_sum(out.epoch, epoch_);  // random functions of later stages differ between epochs
    out.state = stream_state({++next_});
    return Emission::element;
  }
  std::int64_t held_bytes() const override {
    if (collector_) return collector_->bytes();
    const StoredElementsRef stored = store_->stored();
    return stored ? stored->bytes() : 0;
  }

 private:
  // Stores an element, or ends the epoch and returns false if it is null.
  bool store(Element* element) {
    if (!collector_) collector_ = store_->collect();
    if (element != nullptr) {
      element->state = nullptr;
      collector_->add(*element);
      return true;
    }
    store_->finish(*collector_);
    collector_ = nullptr;
    return false;
  }

  std::shared_ptr<ElementStore> store_;
  std::string stage_;
  StoredElementsRef stored_;
  std::unique_ptr<ElementCollector> collector_;
  std::int64_t epoch_ = 0, next_ = 0, skip_ = 0;
};

class CacheNode : public DatasetNode {
 public:
  CacheNode(DatasetNodeRef input, std::string name, ElementStore::Collect collect)
      : DatasetNode({std::move(input)}),
        name_(std::move(name)),
        store_(std::make_shared<ElementStore>(std::move(collect), nullptr)) {}
  std::string name() const override { return name_; }
  std::string common_name() const override { return "cache"; }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<StoringBody>(store_, "cache"); }
  Restoration restoration(const StreamState* state) const override { return store_->restoration(state); }

 private:
  std::string name_;
  std::shared_ptr<ElementStore> store_;
};

class SnapshotNode : public DatasetNode {
 public:
  SnapshotNode(DatasetNodeRef input, std::string name, std::shared_ptr<ElementStore> store)
      : DatasetNode({std::move(input)}),
        name_(std::move(name)),
        store_(std::move(store)) {
    store_->find();
  }
  std::string name() const override { return name_; }
  std::string common_name() const override { return "snapshot"; }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<StoringBody>(store_, "snapshot"); }
  std::optional<std::int64_t> size() const override {
    const StoredElementsRef stored = store_->stored();
    return stored ? std::optional(stored->size()) : std::nullopt;
  }
  bool changes_size() const override { return true; }
  Restoration restoration(const StreamState* state) const override { return store_->restoration(state); }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    const StoredElementsRef stored = store_->stored();
    if (!stored) return DatasetNode::at(epoch, index);  // an error
    Element out = stored->read(index);
    out.epoch = wrapping_sum(out.epoch, epoch);
    return out;
  }

 private:
  std::string name_;
  std::shared_ptr<ElementStore> store_;
};

void check_folder(const char* stage, const std::string& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0)
    fail(ErrorKind::data, stage, ": cannot use the folder ", quote(folder), ": ", std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) fail(ErrorKind::data, stage, ": ", quote(folder), " must be a folder");
}

// Null if the file does not exist.
StoredElementsRef find_snapshot(const std::string& path, const std::string& description, const ObjectCodec& codec) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) return nullptr;
  auto elements = std::make_shared<const ElementsInFile>(std::make_shared<const OpenFile>(path), codec);
  require(ErrorKind::data, elements->description() == description, "snapshot: ", path,
          " has the elements of another data set:\n", elements->description(), "This data set is:\n", description,
          "Delete the file, so that it is written again, or use another path.");
  return elements;
}

}  // namespace

Dataset Dataset::cache() const {
  return Dataset(std::make_shared<CacheNode>(node_, "cache", [] { return std::make_unique<MemoryCollector>(); }));
}

Dataset Dataset::cache(std::string folder, ObjectCodec codec) const {
  check_folder("cache", folder);
  const std::string name = cat("cache(", quote(folder), ")");
  return Dataset(std::make_shared<CacheNode>(node_, name, [folder = std::move(folder), codec = std::move(codec)] {
    return std::make_unique<CacheFileCollector>(folder, codec);
  }));
}

Dataset Dataset::snapshot(std::string path, ObjectCodec codec) const {
  const std::size_t slash = path.find_last_of('/');
  if (path.empty() || slash + 1 == path.size()) fail("snapshot: the path of a file is needed, got ", quote(path));
  check_folder("snapshot", slash == path.npos ? "." : path.substr(0, slash + 1));
  const std::string name = cat("snapshot(", quote(path), ")"), description = text();
  auto store =
      std::make_shared<ElementStore>([=] { return std::make_unique<SnapshotCollector>(path, description, codec); },
                                     [=] { return find_snapshot(path, description, codec); });
  return Dataset(std::make_shared<SnapshotNode>(node_, name, std::move(store)));
}

}  // namespace karez::data
