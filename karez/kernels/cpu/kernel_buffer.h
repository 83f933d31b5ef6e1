// Runs one kernel on arrays that own their bytes and may have any strides; used in tests.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// The memory of a view, filled with a pattern that no kernel may leave in the elements of an output.
struct Buffer {
  View view;
  std::vector<std::byte> bytes;

  static constexpr std::byte unwritten{0x7F};  // a large number in every dtype, so that tests notice missing writes
  explicit Buffer(View v) : view(std::move(v)), bytes(static_cast<std::size_t>(view.bytes()) + 64, unwritten) {}
  template <class T> T& at(const std::vector<std::int64_t>& index) {
    return reinterpret_cast<T*>(bytes.data())[offset_of(index, view.strides)];
  }
};

// Makes a buffer from elements in logical (row-major) order; logical() returns them in this order.
template <class T> Buffer filled(View view, const std::vector<T>& values) {
  Buffer out(std::move(view));
  require(static_cast<std::int64_t>(values.size()) == out.view.count(), "a buffer of ", out.view, " needs ",
          out.view.count(), " values, got ", values.size());
  std::size_t next = 0;
  for_each_index(out.view.shape, [&](const auto& index) { out.at<T>(index) = values[next++]; });
  return out;
}
template <class T> Buffer filled(Shape shape, const std::vector<T>& values) {
  return filled<T>(View(dtype_of<T>(), std::move(shape)), values);
}
template <class T> std::vector<T> logical(Buffer& buffer) {
  std::vector<T> out;
  for_each_index(buffer.view.shape, [&](const auto& index) { out.push_back(buffer.at<T>(index)); });
  return out;
}

// Runs the row on the buffers twice, because a kernel is prepared once and run many times. Returns the results of the
// second run.
inline std::vector<Buffer> run_row(const KernelRow& row, std::vector<Buffer>& in, const std::vector<View>& out,
                                   const Attrs& attrs = {}) {
  CallSpec call;
  call.op = row.op;
  call.attrs = attrs;
  for (const Buffer& buffer : in) call.in.push_back(buffer.view);
  call.out = out;
  if (!row.supports(call)) fail(row.name, " does not support ", print(call));
  const PreparedKernel kernel = row.prepare(call);
  const std::int64_t bytes = row.workspace ? row.workspace(call) : 0;
  std::vector<Buffer> results;
  for (int round = 0; round < 2; ++round) {
    results.clear();
    for (const View& view : out) results.emplace_back(view);
    // Allocates exactly the requested bytes (rounded up to 64), so that a sanitizer detects any access past the end.
    const auto size = static_cast<std::size_t>(round_up(std::max<std::int64_t>(bytes, 1), 64));
    struct Free {
      void operator()(std::byte* memory) const { std::free(memory); }
    };
    const std::unique_ptr<std::byte, Free> workspace(static_cast<std::byte*>(std::aligned_alloc(64, size)));
    std::vector<std::byte*> ins, outs;
    for (Buffer& buffer : in) ins.push_back(buffer.bytes.data());
    for (Buffer& buffer : results) outs.push_back(buffer.bytes.data());
    kernel({ins, outs, workspace.get()});
  }
  return results;
}
inline std::vector<Buffer> run_plain(const std::string& op, std::vector<Buffer> in, const std::vector<View>& out,
                                     const Attrs& attrs = {}) {
  return run_row(KernelTable(plain_kernels()).row("plain." + op), in, out, attrs);
}

}  // namespace karez::kernels
