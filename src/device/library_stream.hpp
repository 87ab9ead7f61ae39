// What the library does with a stream beyond what programs do: it puts work there that a graph begins anew with each
// launch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "wreath/device.hpp"

namespace wreath {

// A piece of work that streams captured. Every launch of the graph asks all pieces in the order of their capture.
class GraphWork {
 public:
  virtual ~GraphWork() = default;
  // Why it cannot be launched now. Asked of all pieces before any begins.
  virtual Status check() = 0;
  // Begins a launch: what the stream does when it comes to the piece. A stream that fails before drops it undone.
  virtual std::function<Status()> begin() = 0;
};

class LibraryStream : public Stream {
 public:
  virtual bool capturing() const = 0;
  // Of a stream that captures: adds `work` to the graph.
  virtual Status capture(std::shared_ptr<GraphWork> work) = 0;
  // The capture cannot become a graph, and says why. Nothing where the stream does not capture.
  virtual void invalidate(const std::string& reason) = 0;
};

// Null where it does not capture, or is null.
LibraryStream* capturing(Stream* stream);

}  // namespace wreath
