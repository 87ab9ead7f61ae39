// The branches of a graph are streams of its own, but for the first: that is the stream it is launched in.
#include "src/device/host_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "src/device/check_copy.hpp"
#include "src/device/host_stream.hpp"

namespace wreath {
namespace {

Error misused(std::string text) { return {ErrorCode::InvalidUsage, std::move(text), -1}; }

// What the items of one launch share.
class Replay {
 public:
  // The launching stream has come to the graph, and has not failed.
  Status begin() {
    began_ = true;
    return {};
  }
  // What a failed launch still holds is skipped.
  Status run(const std::function<Status()>& work) {
    if (const Status usable = status(); !usable) return usable;
    Status outcome = outcome_of(work, "host");
    if (!outcome) fail(outcome.error());
    return outcome;
  }
  Status status() const {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    return began_ ? Status() : Status(misused("host stream: it failed before it came to its graph"));
  }

 private:
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
  }

  std::atomic<bool> began_{false};
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

class HostGraph final : public Graph {
 public:
  // Throws std::system_error without a thread for each of its branches.
  HostGraph(Device& device, std::vector<CapturedItem> items, std::size_t branches, std::size_t points)
      : device_(device), items_(std::move(items)) {
    for (std::size_t i = 1; i < branches; ++i) branches_.push_back(std::make_unique<HostStream>(device));
    for (std::size_t i = 0; i < points; ++i) points_.push_back(std::make_shared<HostEventState>());
  }
  ~HostGraph() override { over_->wait(over_->recorded(), -1); }

  Status launch(Stream& stream) override {
    auto* const own = dynamic_cast<HostStream*>(&stream);
    if (own == nullptr) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("host: a graph was launched in a stream of {}", stream.device().name()), -1};
    }
    if (own->capturing()) {
      own->invalidate("a graph was launched in the stream");
      return misused("host: a graph was launched in a stream that captures");
    }
    WREATH_TRY(own->failure());
    for (const CapturedItem& item : items_) {
      if (item.work != nullptr) WREATH_TRY(item.work->check());
    }
    begin(*own);
    return {};
  }

 private:
  // The items of all branches but the first are given to their streams at once: they wait for points of the first.
  void begin(HostStream& own) {
    const auto replay = std::make_shared<Replay>();
    std::vector<HostStream::Item> first;
    first.push_back(passed(over_, over_->recorded()));
    first.push_back({[replay] { return replay->begin(); }, false});
    std::vector<std::uint64_t> numbers(points_.size());
    for (const CapturedItem& item : items_) {
      HostStream::Item added = command(item, numbers, replay);
      item.branch == 0 ? first.push_back(std::move(added)) : branches_[item.branch - 1]->give(std::move(added));
    }
    first.push_back({[replay] { return replay->status(); }, false});
    first.push_back(reached(over_, over_->next()));
    own.give(std::move(first));
  }

  HostStream::Item command(const CapturedItem& item, std::vector<std::uint64_t>& numbers,
                           const std::shared_ptr<Replay>& replay) {
    switch (item.kind) {
      case CapturedItem::Kind::Record:
        numbers[item.point] = points_[item.point]->next();
        return reached(points_[item.point], numbers[item.point]);
      case CapturedItem::Kind::Wait: return passed(points_[item.point], numbers[item.point]);
      case CapturedItem::Kind::Work: break;
    }
    const bool alone = item.branch == 0;
    return {[replay, alone, work = item.work->begin()] {
              const Status outcome = replay->run(work);
              return alone ? outcome : Status();  // the launching stream says so
            },
            false};
  }
  // Also in a stream that has failed: the graph's other branches go on.
  static HostStream::Item reached(const std::shared_ptr<HostEventState>& state, std::uint64_t number) {
    return {[state, number] {
              state->reach(number);
              return Status();
            },
            true};
  }
  static HostStream::Item passed(const std::shared_ptr<HostEventState>& state, std::uint64_t number) {
    return {[state, number] {
              state->wait(number, -1);
              return Status();
            },
            true};
  }

  Device& device_;
  std::vector<CapturedItem> items_;
  std::vector<std::shared_ptr<HostEventState>> points_;
  std::shared_ptr<HostEventState> over_ = std::make_shared<HostEventState>();  // a point for each launch
  std::vector<std::unique_ptr<HostStream>> branches_;
};

}  // namespace

LibraryStream* capturing(Stream* stream) {
  auto* const own = dynamic_cast<LibraryStream*>(stream);
  return own != nullptr && own->capturing() ? own : nullptr;
}

bool HostCapture::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

std::size_t HostCapture::add_branch() {
  const std::lock_guard lock(mutex_);
  branches_.emplace_back();
  return branches_.size() - 1;
}

Status HostCapture::valid() const { return invalid_ ? Status(*invalid_) : Status(); }

Status HostCapture::add(std::size_t branch, std::shared_ptr<GraphWork> work) {
  const std::lock_guard lock(mutex_);
  WREATH_TRY(valid());
  items_.push_back({CapturedItem::Kind::Work, branch, std::move(work)});
  Seen& seen = branches_[branch];
  seen.resize(std::max(seen.size(), branch + 1));
  ++seen[branch];
  return {};
}

std::size_t HostCapture::record(std::size_t branch) {
  const std::lock_guard lock(mutex_);
  points_.push_back(branches_[branch]);
  items_.push_back({CapturedItem::Kind::Record, branch, nullptr, points_.size() - 1});
  return points_.size() - 1;
}

void HostCapture::merge(Seen& into, const Seen& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

Status HostCapture::wait(std::size_t branch, std::size_t point) {
  const std::lock_guard lock(mutex_);
  WREATH_TRY(valid());
  items_.push_back({CapturedItem::Kind::Wait, branch, nullptr, point});
  merge(branches_[branch], points_[point]);
  return {};
}

Status HostCapture::invalidate(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!invalid_) invalid_ = misused(fmt::format("host stream: the capture is invalid: {}", reason));
  return *invalid_;
}

// Whether the first branch comes after all that the others have.
Status HostCapture::joined() const {
  Seen first = branches_.front();
  first.resize(branches_.size());
  for (std::size_t i = 1; i < branches_.size(); ++i) {
    if (branches_[i].size() > i && branches_[i][i] > first[i]) {
      return misused(
          "host stream: end_capture: a stream that joined the capture has work that the stream that began it does not "
          "wait for");
    }
  }
  return {};
}

Result<std::unique_ptr<Graph>> HostCapture::end(std::size_t branch, Device& device) {
  const std::lock_guard lock(mutex_);
  if (branch != 0) return misused("host stream: end_capture: another stream began this capture");
  open_ = false;
  WREATH_TRY(valid());
  WREATH_TRY(joined());
  try {
    return std::unique_ptr<Graph>(
        std::make_unique<HostGraph>(device, std::move(items_), branches_.size(), points_.size()));
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::System, fmt::format("host device: cannot start a graph's thread: {}", refused.what())};
  }
}

}  // namespace wreath
