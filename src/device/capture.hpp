// A capture keeps what its streams were given, in one order, and knows which piece comes before which.
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

// One thing that a stream of a capture was given. Branch 0 belongs to the stream that began the capture. Each stream
// that joined has a branch of its own.
struct CapturedItem {
  enum class Kind : std::uint8_t { Work, Record, Wait };
  Kind kind;
  std::size_t branch;
  std::shared_ptr<GraphWork> work;  // of Kind::Work only
  // A Record passes this point, and a Wait waits until the point was passed.
  std::size_t point = 0;
};

// Combines all guards of a graph into one.
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
  // An item that depends on another one comes behind it.
  std::vector<CapturedItem> items;
  GraphGuards guards;
  std::size_t branches = 0;
  std::size_t points = 0;
};

// The state that the streams of one capture share. Any thread may call every function.
class Capture {
 public:
  // `where` names the device's streams in messages.
  explicit Capture(std::string where);

  // Returns a number that no other capture of this process has.
  std::uint64_t number() const { return number_; }
  // Returns false once the capture has ended: from then on its streams run what they are given.
  bool open() const;
  std::size_t add_branch();
  Status add(std::size_t branch, std::shared_ptr<GraphWork> work);
  void guard(std::shared_ptr<GraphGuard> guard);
  // Makes a point behind all that the branch has, and returns its number.
  std::size_t record(std::size_t branch);
  Status wait(std::size_t branch, std::size_t point);
  // Makes the capture invalid. The first reason stays, and is returned.
  Status invalidate(const std::string& reason);
  // Ends the capture, at the request of the stream of `branch`. Returns InvalidUsage where another stream began the
  // capture, where the capture is invalid, or where a stream was not joined.
  Result<CapturedItems> end(std::size_t branch);

 private:
  // Counts for each branch how many of its pieces come before something.
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

// The part of a stream in a capture, or the point of an event in one. Without a capture there is none.
struct CapturePart {
  std::shared_ptr<Capture> capture;
  std::size_t at = 0;  // number of the branch or point
};

// The capture that a stream or an event belongs to. Any thread may call every function.
class CaptureMembership {
 public:
  void set(CapturePart part);
  // Returns an event's part, also where the capture has ended.
  CapturePart any() const;
  // Returns a stream's part while its capture goes on.
  CapturePart open() const;

 private:
  mutable std::mutex mutex_;
  CapturePart part_;
};

// Makes a stream wait for a point of a capture. A stream that ran what it was given joins that capture.
Status wait_for_captured(CaptureMembership& stream, const CapturePart& event, std::string_view where);

// Says whether work that is the same in each launch is the host's or a kernel.
enum class SameWorkOf : std::uint8_t { Host, Kernel };
// Makes a piece of work that is the same in each launch.
std::shared_ptr<GraphWork> same_work(std::function<Status()> work, SameWorkOf of = SameWorkOf::Host);

// The state that the pieces of one launch share.
class Replay {
 public:
  // `usable` returns the failure of the launching stream, if there is one. `fail` gets the first failure of the launch.
  Replay(std::function<Status()> usable, std::function<void(const Error&)> fail)
      : usable_(std::move(usable)), fail_(std::move(fail)) {}

  // Runs `work`, or skips it once the launch has failed. `where` names the stream in messages.
  Status run(const std::function<Status()>& work, std::string_view where);
  // Returns the first failure of the launch, or else that of its stream.
  Status status() const;

 private:
  std::function<Status()> usable_;
  std::function<void(const Error&)> fail_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

}  // namespace wreath
