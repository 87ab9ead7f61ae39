// Captures and graphs of the host device: the streams' commands in the order of their capture, given again, with events
// of their own, by each launch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/device/library_stream.hpp"

namespace wreath {

class HostStream;

// What one stream was given. Branch 0 is of the stream that began, each stream that joined has another one.
struct CapturedItem {
  enum class Kind : std::uint8_t { Work, Record, Wait };
  Kind kind;
  std::size_t branch;
  std::shared_ptr<GraphWork> work;  // Work
  std::size_t point = 0;            // Record: passes it; Wait: until it was passed
};

// What the streams that capture together share. Any thread.
class HostCapture {
 public:
  HostCapture() { add_branch(); }

  // False once it ended: its streams run what they are given again.
  bool open() const;
  std::size_t add_branch();
  Status add(std::size_t branch, std::shared_ptr<GraphWork> work);
  // The point behind all that the branch has.
  std::size_t record(std::size_t branch);
  Status wait(std::size_t branch, std::size_t point);
  // The first reason stays.
  Status invalidate(const std::string& reason);
  // Ends it, asked of `branch`.
  Result<std::unique_ptr<Graph>> end(std::size_t branch, Device& device);

 private:
  // How many pieces of each branch are before something.
  using Seen = std::vector<std::size_t>;
  static void merge(Seen& into, const Seen& from);
  Status valid() const;
  Status joined() const;

  mutable std::mutex mutex_;
  bool open_ = true;
  std::optional<Error> invalid_;
  std::vector<CapturedItem> items_;
  std::vector<Seen> branches_;
  std::vector<Seen> points_;
};

}  // namespace wreath
