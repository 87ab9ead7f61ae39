// The library uses a stream in more ways than programs do: it adds work that a graph begins anew with each launch.
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
  // Returns the reason for which the piece cannot be launched now. A launch asks all pieces before any begins.
  virtual Status check() = 0;
  // Begins a launch, and returns what the stream does when it comes to the piece. A stream that fails before then drops
  // the piece undone, unless it is a kernel.
  virtual std::function<Status()> begin() = 0;
  // Returns true for work that runs even in a stream that has failed, as on a GPU: other ranks' kernels may wait for
  // it.
  virtual bool is_kernel() const { return false; }
};

// Guards kernels of a graph, which run without the host. The guard says whether a launch may begin, and puts the launch
// in its place among other work. Every launch asks it, in the order of the capture.
class GraphGuard {
 public:
  virtual ~GraphGuard() = default;
  // Returns the reason for which the graph cannot be launched now. It is called before anything of the launch begins.
  virtual Status check() = 0;
  // Adds to the launching stream the work that comes before the graph.
  virtual Status before(Stream& stream) = 0;
  // Adds to the launching stream the work that comes after the graph.
  virtual Status after(Stream& stream) = 0;
};

struct CapturePart;

class LibraryStream : public Stream {
 public:
  virtual bool capturing() const = 0;
  // Returns the stream's part in the capture that goes on. Its capture is null where there is none.
  virtual CapturePart capture_part() const = 0;
  // Adds `work` to the graph of a stream that captures.
  virtual Status capture(std::shared_ptr<GraphWork> work) = 0;
  // Makes the capture invalid for `reason`, so that it cannot become a graph. Does nothing where the stream does not
  // capture.
  virtual void invalidate(const std::string& reason) = 0;
  // Returns InvalidUsage where the stream takes no calls now, since a program captures it into a graph of its own,
  // which would not begin them anew.
  virtual Status takes_calls() const { return {}; }
  // Returns the listeners that hear of failed work before kernels run that stand behind it.
  virtual StreamFailures& failures() = 0;
};

// Returns the library's view of `stream`. Returns null where `stream` does not capture, or is null.
LibraryStream* capturing(Stream* stream);
// Returns LibraryStream::takes_calls() of `stream`. A stream that is null takes all.
Status takes_calls(const Stream* stream);
// Returns a number that no other capture of this process has. The stream captures.
std::uint64_t capture_number(const LibraryStream& stream);
// Makes each launch of the graph ask `guard`. The stream captures.
Status guard_graph(const LibraryStream& stream, std::shared_ptr<GraphGuard> guard);

}  // namespace wreath
