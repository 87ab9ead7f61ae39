// The first branch of a graph runs in the stream in which the graph is launched. Every other branch has a stream of the
// graph's own.
#include "src/device/host_graph.hpp"

#include <fmt/format.h>

#include <atomic>
#include <system_error>

#include "src/device/host_stream.hpp"

namespace wreath {
namespace {

Error misused(std::string text) { return {ErrorCode::InvalidUsage, std::move(text), -1}; }

class HostGraph final : public Graph {
 public:
  // Throws std::system_error where a branch other than the first gets no thread.
  HostGraph(Device& device, CapturedItems captured)
      : items_(std::move(captured.items)), guards_(std::move(captured.guards)) {
    for (std::size_t i = 1; i < captured.branches; ++i) branches_.push_back(std::make_unique<HostStream>(device));
    for (std::size_t i = 0; i < captured.points; ++i) points_.push_back(std::make_shared<HostEventState>());
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
    WREATH_TRY(guards_.check());
    WREATH_TRY(guards_.before(stream));
    begin(*own);
    return guards_.after(stream);
  }

 private:
  // Gives the items of all branches but the first to their streams at once: they wait for points of the first branch.
  void begin(HostStream& own) {
    // The flag becomes true once the stream has come here without a failure.
    const auto began = std::make_shared<std::atomic<bool>>(false);
    const auto usable = [began] {
      return *began ? Status() : Status(misused("host stream: it failed before it came to its graph"));
    };
    const auto replay = std::make_shared<Replay>(usable, [&own](const Error& error) { own.failures().tell(error); });
    std::vector<HostStream::Item> first;
    first.push_back(passed(over_, over_->recorded()));
    first.push_back({[began] {
                       *began = true;
                       return Status();
                     },
                     false});
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
    if (item.work->is_kernel()) return {item.work->begin(), true};
    const bool alone = item.branch == 0;
    return {[replay, alone, work = item.work->begin()] {
              const Status outcome = replay->run(work, "host");
              // The launching stream itself reports a failure of another branch.
              return alone ? outcome : Status();
            },
            false};
  }
  // Returns an item that passes a point. It runs also in a stream that has failed, because the graph's other branches
  // go on.
  static HostStream::Item reached(const std::shared_ptr<HostEventState>& state, std::uint64_t number) {
    return {[state, number] {
              state->reach(number);
              return Status();
            },
            true};
  }
  // Returns an item that waits for a point, also in a stream that has failed.
  static HostStream::Item passed(const std::shared_ptr<HostEventState>& state, std::uint64_t number) {
    return {[state, number] {
              state->wait(number, -1);
              return Status();
            },
            true};
  }

  std::vector<CapturedItem> items_;
  GraphGuards guards_;
  std::vector<std::shared_ptr<HostEventState>> points_;
  std::shared_ptr<HostEventState> over_ = std::make_shared<HostEventState>();  // a point for each launch
  std::vector<std::unique_ptr<HostStream>> branches_;
};

}  // namespace

Result<std::unique_ptr<Graph>> make_host_graph(Device& device, CapturedItems captured) {
  try {
    return std::unique_ptr<Graph>(std::make_unique<HostGraph>(device, std::move(captured)));
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::System, fmt::format("host device: cannot start a graph's thread: {}", refused.what())};
  }
}

}  // namespace wreath
