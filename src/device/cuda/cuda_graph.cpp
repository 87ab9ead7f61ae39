// A launch of a graph with work of the host is one piece of the host's work in its stream. Each branch has a thread and
// a stream of its own. The thread gives the branch's commands to that stream, and does the host's work when it is idle.
#include "src/device/cuda/cuda_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>
#include <vector>

#include "src/device/cuda/cuda_stream.hpp"
#include "src/device/cuda/host_work.hpp"
#include "src/device/host_stream.hpp"

namespace wreath {
namespace {

// Makes the checks that every graph of a CUDA device needs before a launch.
class CudaGraph : public Graph {
 public:
  CudaGraph(const CudaContext& context, CapturedItems captured, std::unique_ptr<CudaEvent> over)
      : context_(context),
        items_(std::move(captured.items)),
        guards_(std::move(captured.guards)),
        over_(std::move(over)) {}

  Status launch(Stream& stream) final {
    auto* const own = dynamic_cast<CudaStream*>(&stream);
    if (own == nullptr || &own->context() != &context_) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("{}: a graph was launched in a stream of {}", context_.name, stream.device().name()),
                   -1};
    }
    if (own->capturing()) {
      own->invalidate("a graph was launched in the stream");
      return Error{ErrorCode::InvalidUsage,
                   fmt::format("{}: a graph was launched in a stream that captures", context_.name), -1};
    }
    WREATH_TRY(own->takes_calls());
    if (const auto failure = own->host_work()->failure()) return *failure;
    for (const CapturedItem& item : items_) {
      if (item.work != nullptr) WREATH_TRY(item.work->check());
    }
    WREATH_TRY(guards_.check());
    WREATH_TRY(guards_.before(stream));
    WREATH_TRY(begin(*own));
    WREATH_TRY(own->record(*over_));
    return guards_.after(stream);
  }

 protected:
  virtual Status begin(CudaStream& stream) = 0;
  const CudaContext& context() const { return context_; }
  const std::vector<CapturedItem>& items() const { return items_; }
  // Returns the event that is recorded behind each launch.
  CudaEvent& over() { return *over_; }

 private:
  const CudaContext& context_;
  std::vector<CapturedItem> items_;
  GraphGuards guards_;
  std::unique_ptr<CudaEvent> over_;
};

class DriversGraph final : public CudaGraph {
 public:
  DriversGraph(const CudaContext& context, CudaHandle executable, CapturedItems captured,
               std::unique_ptr<CudaEvent> over)
      : CudaGraph(context, std::move(captured), std::move(over)), executable_(executable) {}
  ~DriversGraph() override {
    static_cast<void>(over().synchronize(-1));
    with_context(context(), [&] { return context().driver.graph_exec_destroy(executable_); });
  }

 private:
  Status begin(CudaStream& stream) override {
    return stream.add(std::make_shared<CudaCommand>(
        "cuGraphLaunch", [this](CudaHandle handle) { return context().driver.graph_launch(executable_, handle); }));
  }

  CudaHandle executable_;
};

// The threads and streams that launches use while they run: each branch has a thread, and a stream for its commands.
struct Branches {
  std::vector<std::unique_ptr<HostStream>> threads;
  std::vector<std::unique_ptr<CudaStream>> streams;
  std::vector<std::unique_ptr<CudaEvent>> points;
};

// One launch of a graph whose commands are given again. The threads of all branches use it.
class Launch {
 public:
  Launch(std::shared_ptr<Branches> branches, std::shared_ptr<CudaHostWork> host, std::string where)
      : branches_(std::move(branches)),
        replay_([host] { return host->failure() ? Status(*host->failure()) : Status(); },
                [host](const Error& error) { host->fail(error, false); }),
        where_(std::move(where)),
        items_(branches_->streams.size()),
        passed_(branches_->points.size()) {}

  void add(const CapturedItem& item) {
    items_[item.branch].push_back({item, item.work == nullptr ? nullptr : item.work->begin()});
  }
  // Runs all branches, and returns their first failure.
  Status run() {
    for (std::size_t branch = 0; branch < items_.size(); ++branch) {
      WREATH_TRY(branches_->threads[branch]->run([this, branch] { return run(branch), Status(); }));
    }
    for (const auto& thread : branches_->threads) WREATH_TRY(thread->synchronize(-1));
    return replay_.status();
  }

 private:
  struct Item {
    CapturedItem captured;
    std::function<Status()> work;  // null unless it is the host's
  };

  // Runs one branch. After a failure it only passes the points, because other branches wait for them.
  void run(std::size_t branch) {
    CudaStream& stream = *branches_->streams[branch];
    for (const Item& item : items_[branch]) {
      const std::size_t point = item.captured.point;
      const bool records = item.captured.kind == CapturedItem::Kind::Record;
      if (item.captured.kind == CapturedItem::Kind::Wait) passed_[point].wait(false);
      static_cast<void>(replay_.run([&] { return give(stream, item); }, where_));
      if (records) passed_[point] = true;
      if (records) passed_[point].notify_all();
    }
    static_cast<void>(replay_.run([&] { return stream.synchronize(-1); }, where_));
  }

  Status give(CudaStream& stream, const Item& item) {
    switch (item.captured.kind) {
      case CapturedItem::Kind::Record: return stream.record(*branches_->points[item.captured.point]);
      case CapturedItem::Kind::Wait: return stream.wait(*branches_->points[item.captured.point]);
      case CapturedItem::Kind::Work: break;
    }
    if (item.work == nullptr) return stream.add(std::static_pointer_cast<CudaCommand>(item.captured.work));
    WREATH_TRY(stream.synchronize(-1));
    return item.work();
  }

  std::shared_ptr<Branches> branches_;
  Replay replay_;
  std::string where_;
  std::vector<std::vector<Item>> items_;  // by branch
  std::vector<std::atomic<bool>> passed_;
};

class GivenAgain final : public CudaGraph {
 public:
  GivenAgain(const CudaContext& context, CapturedItems captured, std::unique_ptr<CudaEvent> over,
             std::shared_ptr<Branches> branches)
      : CudaGraph(context, std::move(captured), std::move(over)), branches_(std::move(branches)) {}
  ~GivenAgain() override { static_cast<void>(over().synchronize(-1)); }

 private:
  // Launches run one after the other, whatever streams they are in.
  Status begin(CudaStream& stream) override {
    WREATH_TRY(stream.wait(over()));
    const auto launch = std::make_shared<Launch>(branches_, stream.host_work(), context().name);
    for (const CapturedItem& item : items()) launch->add(item);
    return stream.run([launch] { return launch->run(); });
  }

  std::shared_ptr<Branches> branches_;
};

bool is_hosts(const CapturedItem& item) {
  return item.kind == CapturedItem::Kind::Work && dynamic_cast<CudaCommand*>(item.work.get()) == nullptr;
}

Result<std::shared_ptr<Branches>> make_branches(Device& device, const CudaContext& context,
                                                const CapturedItems& captured) {
  auto branches = std::make_shared<Branches>();
  for (std::size_t i = 0; i < captured.branches; ++i) {
    auto stream = CudaStream::make(device, context, context.urgent);
    if (!stream) return stream.error();
    branches->streams.push_back(*std::move(stream));
    try {
      branches->threads.push_back(std::make_unique<HostStream>(device));
    } catch (const std::system_error& refused) {
      return Error{ErrorCode::System,
                   fmt::format("{}: cannot start a graph's thread: {}", context.name, refused.what())};
    }
  }
  for (std::size_t i = 0; i < captured.points; ++i) {
    auto point = CudaEvent::make(context, EventUse::Order);
    if (!point) return point.error();
    branches->points.push_back(*std::move(point));
  }
  return branches;
}

}  // namespace

Result<std::unique_ptr<Graph>> make_cuda_graph(Device& device, const CudaContext& context, CudaHandle graph,
                                               CapturedItems captured) {
  const bool given_again = std::any_of(captured.items.begin(), captured.items.end(), is_hosts);
  CudaHandle executable = nullptr;
  const CudaResult made = with_context(context, [&] {
    const CudaResult result =
        given_again ? kCudaSuccess : context.driver.graph_instantiate_with_flags(&executable, graph, 0);
    context.driver.graph_destroy(graph);
    return result;
  });
  WREATH_TRY(context.check(made, "cuGraphInstantiateWithFlags"));
  auto over = CudaEvent::make(context, EventUse::Order);
  if (!given_again) {
    if (over) {
      return std::unique_ptr<Graph>(
          std::make_unique<DriversGraph>(context, executable, std::move(captured), *std::move(over)));
    }
    with_context(context, [&] { return context.driver.graph_exec_destroy(executable); });
  }
  if (!over) return over.error();
  auto branches = make_branches(device, context, captured);
  if (!branches) return branches.error();
  return std::unique_ptr<Graph>(
      std::make_unique<GivenAgain>(context, std::move(captured), *std::move(over), *std::move(branches)));
}

}  // namespace wreath
