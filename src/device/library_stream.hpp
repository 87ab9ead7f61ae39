// What the library does with a stream beyond what programs do: it puts work there that a graph begins anew with each
// launch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/device/stream_failures.hpp"
#include "wreath/device.hpp"

namespace wreath {

// A piece of work that streams captured. Every launch of the graph asks all pieces in the order of their capture.
class GraphWork {
 public:
  virtual ~GraphWork() = default;
  // Why it cannot be launched now. Asked of all pieces before any begins.
  virtual Status check() = 0;
  // Begins a launch: what the stream does when it comes to the piece. A stream that fails before drops it undone,
  // unless it is a kernel.
  virtual std::function<Status()> begin() = 0;
  // Runs in a stream that has failed, too, as on a GPU: other ranks' kernels may wait for it.
  virtual bool is_kernel() const { return false; }
};

// What stands behind kernels of a graph, which run without the host: it says whether a launch may begin, and puts it in
// its place among other work. Asked by every launch, in the order of the capture.
class GraphGuard {
 public:
  virtual ~GraphGuard() = default;
  // Why it cannot be launched now. Asked before anything of the launch begins.
  virtual Status check() = 0;
  // Adds to the launching stream what comes before the graph, and what comes after it.
  virtual Status before(Stream& stream) = 0;
  virtual Status after(Stream& stream) = 0;
};

struct CapturePart;

class LibraryStream : public Stream {
 public:
  virtual bool capturing() const = 0;
  // Of the capture that goes on; null: none.
  virtual CapturePart capture_part() const = 0;
  // Of a stream that captures: adds `work` to the graph.
  virtual Status capture(std::shared_ptr<GraphWork> work) = 0;
  // The capture cannot become a graph, and says why. Nothing where the stream does not capture.
  virtual void invalidate(const std::string& reason) = 0;
  // Told before kernels run that stand behind work which has failed.
  virtual StreamFailures& failures() = 0;
};

// Null where it does not capture, or is null.
LibraryStream* capturing(Stream* stream);
// Of a stream that captures: a number that no other capture of this process has.
std::uint64_t capture_number(const LibraryStream& stream);
// Of a stream that captures: each launch of the graph asks `guard`.
Status guard_graph(const LibraryStream& stream, std::shared_ptr<GraphGuard> guard);

}  // namespace wreath
