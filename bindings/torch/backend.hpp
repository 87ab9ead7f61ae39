// The c10d backend `wreath` has the functions that torch.distributed calls, for tensors in the CPU's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "bindings/torch/channel.hpp"
#include "bindings/torch/version.hpp"

namespace wreath_torch {

inline constexpr const char* kBackendName = "wreath";

// A Membership describes a group and this rank in it, as torch says when it makes a group.
struct Membership {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  GroupNames group;
};

// A WreathBackend is one rank of one group. Any thread may call it; a thread that calls while another one does waits
// for its turn. Mistakes in the arguments throw and reach no other rank. All other errors are in the Work.
class WreathBackend : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  // Returns when all ranks of the group have made theirs; throws when they do not meet within the timeout.
  explicit WreathBackend(Membership membership);
  ~WreathBackend() override;

  const std::string getBackendName() const override { return kBackendName; }
  c10::intrusive_ptr<Options> getBackendOptions() WREATH_TORCH_OVERRIDE_2_8;
  bool supportsSplitting() const override { return true; }
  // Messages of a batch need no common beginning. Where torch takes one, a mistake in a batch leaves torch collecting
  // the group's later calls without ever making them.
  bool supportsCoalescing() const override { return false; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;

  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // Sends over a communicator of the two ranks for each direction and tag, so that no message waits for another one.
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  // Receives over such a communicator of the two ranks.
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  // Always throws: a receive names the rank that sends.
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;

  // Makes this thread's calls until endCoalescing() one Work.
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  // Makes the new group on its members only; others get null at once.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) WREATH_TORCH_OVERRIDE_2_8;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

 private:
  using Body = std::function<void(Turn&)>;
  enum class Direction : std::uint8_t { Send, Receive };
  struct Settings {
    std::chrono::milliseconds timeout;
    bool asynchronous;
  };
  template <typename OptionsOfCall>
  static Settings settings_of(const OptionsOfCall& options);

  WorkPointer enter(const CallName& name, const Settings& settings, const Tensors& inputs, Tensors outputs, Body body);
  WorkPointer enter(const std::shared_ptr<Channel>& channel, const Settings& settings,
                    c10::intrusive_ptr<CallWork> work, Body body);
  WorkPointer exchange(Direction direction, Tensors& tensors, int peer, int tag);
  std::shared_ptr<Channel> channel_to(Direction direction, int peer, int tag);
  std::vector<std::shared_ptr<Channel>> channels();
  void check_root(std::string_view call, std::int64_t root) const;
  void check_blocks(std::string_view call, const Tensors& blocks, const at::Tensor& own) const;
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }

  struct ChannelKey {
    int peer;
    int tag;
    Direction direction;
    auto operator<=>(const ChannelKey&) const = default;
  };
  // A Batch holds calls of one thread that become one Work.
  struct Batch {
    std::thread::id thread;
    std::vector<WorkPointer> works;
  };

  const Membership membership_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> timeout_ms_;
  // The channel of all ranks.
  std::shared_ptr<Channel> all_;
  // The mutex guards the fields that follow.
  std::mutex mutex_;
  std::map<ChannelKey, std::shared_ptr<Channel>> pairs_;
  std::optional<Batch> batch_;
};

// Shuts down every group of this process that still lives, for the end of the program.
void shut_down_all();

template <typename OptionsOfCall>
WreathBackend::Settings WreathBackend::settings_of(const OptionsOfCall& options) {
  return {options.timeout, options.asyncOp};
}

}  // namespace wreath_torch
