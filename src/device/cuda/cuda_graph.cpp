// A launch begins all captured work, gives it to the branches' threads, and launches the driver's graph, whose
// callbacks wake them.
#include "src/device/cuda/cuda_graph.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "src/device/cuda/cuda_stream.hpp"

namespace wreath {
namespace {

class CudaGraph final : public Graph {
 public:
  CudaGraph(const CudaContext& context, CudaHandle executable, CapturedItems captured,
            std::shared_ptr<CudaBranches> branches, std::unique_ptr<CudaEvent> over)
      : context_(context),
        executable_(executable),
        items_(std::move(captured.items)),
        guards_(std::move(captured.guards)),
        branches_(std::move(branches)),
        over_(std::move(over)) {}
  ~CudaGraph() override {
    const Status over = over_->synchronize(-1);
    with_context(context_, [&] { return context_.driver.graph_exec_destroy(executable_); });
    if (over) return;
    give_up(over.error());
    CudaHostWork::keep(branches_);
  }

  Status launch(Stream& stream) override {
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
    if (const auto failure = own->host_work()->failure()) return *failure;
    if (broken_) return *broken_;
    for (const CapturedItem& item : items_) {
      if (item.work != nullptr) WREATH_TRY(item.work->check());
    }
    WREATH_TRY(guards_.check());
    WREATH_TRY(guards_.before(stream));
    Status launched = own->launch_graph(
        executable_, [&] { return begin(*own); }, *over_);
    if (!launched) give_up(launched.error());
    return launched ? guards_.after(stream) : launched;
  }

 private:
  Status begin(const CudaStream& stream) {
    const auto host = stream.host_work();
    const auto usable = [host]() -> Status {
      const auto failure = host->failure();
      return failure ? Status(*failure) : Status();
    };
    const auto replay = std::make_shared<Replay>(usable, [host](const Error& error) { host->fail(error, false); });
    for (const CapturedItem& item : items_) {
      if (item.work == nullptr) continue;
      const auto added = branches_->at(item.branch).add([replay, name = context_.name, work = item.work->begin()] {
        static_cast<void>(replay->run(work, name));  // the launching stream has the failure
        return Status();
      });
      if (!added) return added.error();
    }
    return {};
  }

  // Work that was begun and whose callbacks do not come would be taken for the next launch's.
  void give_up(const Error& error) {
    broken_ = error;
    for (std::size_t branch = 0; branch < branches_->count(); ++branch) branches_->at(branch).fail(error, true);
  }

  const CudaContext& context_;
  CudaHandle executable_;
  std::vector<CapturedItem> items_;
  GraphGuards guards_;
  std::shared_ptr<CudaBranches> branches_;
  std::unique_ptr<CudaEvent> over_;  // recorded behind each launch
  std::optional<Error> broken_;
};

}  // namespace

Status CudaBranches::add(const CudaContext& context) {
  auto made = CudaHostWork::make(context, CudaHostWork::Of::Graph);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  each_.push_back(*std::move(made));
  return {};
}

CudaHostWork& CudaBranches::at(std::size_t branch) const {
  const std::lock_guard lock(mutex_);
  return *each_[branch];
}

std::size_t CudaBranches::count() const {
  const std::lock_guard lock(mutex_);
  return each_.size();
}

Result<std::unique_ptr<Graph>> make_cuda_graph(const CudaContext& context, CudaHandle graph, CapturedItems captured,
                                               std::shared_ptr<CudaBranches> branches) {
  auto over = CudaEvent::make(context, EventUse::Order);
  CudaHandle executable = nullptr;
  const CudaResult made = with_context(context, [&] {
    const CudaResult result = context.driver.graph_instantiate_with_flags(&executable, graph, 0);
    context.driver.graph_destroy(graph);
    return result;
  });
  WREATH_TRY(context.check(made, "cuGraphInstantiateWithFlags"));
  if (!over) {
    with_context(context, [&] { return context.driver.graph_exec_destroy(executable); });
    return over.error();
  }
  return std::unique_ptr<Graph>(
      std::make_unique<CudaGraph>(context, executable, std::move(captured), std::move(branches), *std::move(over)));
}

}  // namespace wreath
