// A file that has a temporary name until it is complete, so that its path has either all old bytes or all new bytes.
#pragma once

#include <memory>
#include <string>

#include "karez/data/namespace.h"
#include "karez/data/open_file.h"

namespace karez::data {

// Creates PATH.writing-PROCESS-NUMBER in the folder of the path; the destructor removes it unless `commit` has renamed
// it, and does nothing in a forked process. Files of killed writers of this path are removed when the next writer
// begins: a writer locks its file (flock) as long as it is open. Throws data errors that contain the file and the
// reason, such as a missing folder or a full disk.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // Open for reading and writing; its name is the path.
  const std::shared_ptr<const OpenFile>& file() const { return file_; }
  void commit();  // syncs the bytes, renames the file to the path and syncs the folder

 private:
  std::string path_, temporary_path_;  // the second is empty after `commit`
  std::shared_ptr<const OpenFile> file_;
  int process_;  // the process that has created the file
};

// A file without a name in this folder, open for reading and writing. It exists as long as it is open, so it never
// remains after a crash. `name` is for errors.
std::shared_ptr<const OpenFile> open_unnamed_file(const std::string& folder, std::string name);

}  // namespace karez::data
