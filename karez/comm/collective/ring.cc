// The ring: posts a receive for each chunk in time, reduces the chunk, and forwards it.
#include "karez/comm/collective/ring.h"

#include <algorithm>
#include <cstddef>

namespace karez::comm {

void write_ring(ProgramWriter& writer, BufferOffset from, std::int64_t elements, const std::vector<RingStep>& steps) {
  const int next = writer.neighbour(1), previous = writer.neighbour(-1);
  std::int64_t max_elements = elements;
  for (const RingStep& step : steps) max_elements = std::max(max_elements, step.elements);
  const std::int64_t rounds = writer.chunk_count(max_elements);
  const auto chunk_count = static_cast<std::size_t>(rounds);
  std::vector<std::int64_t> receives;                 // numbers of messages, by step and chunk
  std::vector<std::int64_t> last_sends(chunk_count);  // numbers of messages, by chunk of the last step
  // Posts all receives up to chunk `c` of the step, step by step. If `required` is false, posts only those that need no
  // await.
  auto post = [&](std::size_t step, std::int64_t c, bool required) {
    const std::size_t last = step * chunk_count + static_cast<std::size_t>(c);
    while (step < steps.size() && receives.size() <= last && (required || writer.can_receive(previous))) {
      const RingStep& s = steps[receives.size() / chunk_count];
      const auto chunk = static_cast<std::int64_t>(receives.size()) % rounds;
      if (s.sent_before && !required) return;
      if (s.sent_before) writer.await_sent(next, last_sends[static_cast<std::size_t>(chunk)]);
      receives.push_back(
          writer.receive(previous, s.to + chunk * writer.chunk_bytes(), writer.size_of_chunk(s.elements, chunk)));
    }
  };
  auto forward = [&](std::size_t step, BufferOffset data, std::int64_t count, std::int64_t c) {
    post(step, c, true);
    last_sends[static_cast<std::size_t>(c)] =
        writer.send(next, data + c * writer.chunk_bytes(), writer.size_of_chunk(count, c));
    post(step + 1, c, false);
  };
  for (std::int64_t c = 0; c < rounds; ++c) forward(0, from, elements, c);
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (std::int64_t c = 0; c < rounds; ++c) {
      const RingStep& step = steps[s];
      writer.await_received(previous, receives[s * chunk_count + static_cast<std::size_t>(c)]);
      const std::int64_t offset = c * writer.chunk_bytes();
      if (step.term) writer.reduce(*step.term + offset, step.to + offset, writer.size_of_chunk(step.elements, c));
      if (s + 1 < steps.size()) forward(s + 1, step.to, step.elements, c);
    }
}

}  // namespace karez::comm
