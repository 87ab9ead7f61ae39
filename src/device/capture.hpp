// Captures: what streams that capture together were given, in one order, and which of it comes before what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/device/library_stream.hpp"

namespace wreath {

// Branch 0 is of the stream that began, each stream that joined has another one.
struct CapturedItem {
  enum class Kind : std::uint8_t { Work, Record, Wait };
  Kind kind;
  std::size_t branch;
  std::shared_ptr<GraphWork> work;  // Work
  std::size_t point = 0;            // Record: passes it; Wait: until it was passed
};

// All guards of a graph as one.
class GraphGuards final : public GraphGuard {
 public:
  void add(std::shared_ptr<GraphGuard> guard) { each_.push_back(std::move(guard)); }
  Status check() override;
  Status before(Stream& stream) override;
  Status after(Stream& stream) override;

 private:
  std::vector<std::shared_ptr<GraphGuard>> each_;
};

struct CapturedItems {
  std::vector<CapturedItem> items;  // what depends on another comes behind it
  GraphGuards guards;
  std::size_t branches = 0;
  std::size_t points = 0;
};

// What the streams that capture together share. Any thread.
class Capture {
 public:
  // `where` names the device's streams in messages.
  explicit Capture(std::string where);

  // No other capture of this process has it.
  std::uint64_t number() const { return number_; }
  // False once it ended: its streams run what they are given again.
  bool open() const;
  std::size_t add_branch();
  Status add(std::size_t branch, std::shared_ptr<GraphWork> work);
  void guard(std::shared_ptr<GraphGuard> guard);
  // The point behind all that the branch has.
  std::size_t record(std::size_t branch);
  Status wait(std::size_t branch, std::size_t point);
  // The first reason stays, and is returned.
  Status invalidate(const std::string& reason);
  // Ends it, asked of `branch`. InvalidUsage where it is invalid, or a stream was not joined.
  Result<CapturedItems> end(std::size_t branch);

 private:
  // How many pieces of each branch are before something.
  using Seen = std::vector<std::size_t>;
  static void merge(Seen& into, const Seen& from);
  Status valid() const;
  Status joined() const;

  std::string where_;
  std::uint64_t number_;
  mutable std::mutex mutex_;
  bool open_ = true;
  std::optional<Error> invalid_;
  std::vector<CapturedItem> items_;
  GraphGuards guards_;
  std::vector<Seen> branches_;
  std::vector<Seen> points_;
};

// A stream's part in a capture, or an event's point of one; null: none.
struct CapturePart {
  std::shared_ptr<Capture> capture;
  std::size_t at = 0;  // branch, or point
};

// What a stream or an event knows of captures. Any thread.
class CaptureMembership {
 public:
  void set(CapturePart part);
  // Of an event: also where the capture has ended.
  CapturePart any() const;
  // Of a stream: while it goes on.
  CapturePart open() const;

 private:
  mutable std::mutex mutex_;
  CapturePart part_;
};

// A stream is to wait for a point of a capture: one that ran what it was given becomes a part of it.
Status wait_for_captured(CaptureMembership& stream, const CapturePart& event, std::string_view where);

// Work that is the same in each launch.
enum class SameWorkOf : std::uint8_t { Host, Kernel };
std::shared_ptr<GraphWork> same_work(std::function<Status()> work, SameWorkOf of = SameWorkOf::Host);

// What the pieces of one launch share.
class Replay {
 public:
  // `usable` says whether the launching stream has failed; it is told the first failure by `fail`.
  Replay(std::function<Status()> usable, std::function<void(const Error&)> fail)
      : usable_(std::move(usable)), fail_(std::move(fail)) {}

  // What a failed launch still holds is skipped. `where` names the stream in messages.
  Status run(const std::function<Status()>& work, std::string_view where);
  // The first failure.
  Status status() const;

 private:
  std::function<Status()> usable_;
  std::function<void(const Error&)> fail_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

}  // namespace wreath
