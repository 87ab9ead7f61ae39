// Runs Gloo under the perf tools' own loop, over TCP on the loopback interface.
// Run it as: peer_gloo RANK RANKS FOLDER all_reduce_perf --no-pin --sizes 8,64K --json FILE
// The ranks meet in the empty FOLDER. The options of each call are made once for its buffers, as Gloo's own benchmark
// does.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/run.hpp"

namespace wreath::perf {
namespace {

using Context = std::shared_ptr<gloo::Context>;

class GlooMember final : public Member {
 public:
  explicit GlooMember(Context context) : context_(std::move(context)) {}
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }
  Status run(const Call& call) override;
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override;
  std::string plan_for(Collective, std::size_t) const override { return "Gloo"; }

 private:
  using Key = std::tuple<Collective, DataType, const void*, const void*, std::size_t, Rank>;
  template <typename T>
  std::function<void()> prepare(const Call& call);

  Context context_;
  std::map<Key, std::function<void()>> prepared_;
};

// Returns the input as Gloo takes it. Gloo takes inputs as it takes outputs, and does not write to them.
template <typename T>
T* input_of(const Call& call) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(call.input));
}

// Returns a call with these options, which may run any number of times; empty: it is not compared.
template <typename T>
std::function<void()> GlooMember::prepare(const Call& call) {
  T* const input = input_of<T>(call);
  T* const output = reinterpret_cast<T*>(call.output);
  const std::size_t all = call.count * static_cast<std::size_t>(ranks());
  switch (call.collective) {
    case Collective::AllReduce: {
      auto options = std::make_shared<gloo::AllreduceOptions>(context_);
      options->setInput(input, call.count);
      options->setOutput(output, call.count);
      using Sum = void (*)(void*, const void*, const void*, size_t);
      options->setReduceFunction(static_cast<Sum>(&gloo::sum<T>));
      return [options] { gloo::allreduce(*options); };
    }
    case Collective::AllGather: {
      auto options = std::make_shared<gloo::AllgatherOptions>(context_);
      options->setInput(input, call.count);
      options->setOutput(output, all);
      return [options] { gloo::allgather(*options); };
    }
    case Collective::Broadcast: {
      auto options = std::make_shared<gloo::BroadcastOptions>(context_);
      if (rank() == call.root) options->setInput(input, call.count);
      options->setOutput(output, call.count);
      options->setRoot(call.root);
      return [options] { gloo::broadcast(*options); };
    }
    case Collective::AllToAll: {
      auto options = std::make_shared<gloo::AlltoallOptions>(context_);
      options->setInput(input, all);
      options->setOutput(output, all);
      return [options] { gloo::alltoall(*options); };
    }
    default: return {};
  }
}

Status GlooMember::run(const Call& call) {
  const Key key{call.collective, call.dtype, call.input, call.output, call.count, call.root};
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    auto made = call.dtype == DataType::Float32 ? prepare<float>(call)
                : call.dtype == DataType::Int32 ? prepare<std::int32_t>(call)
                                                : std::function<void()>{};
    if (!made) return Error{ErrorCode::Unavailable, "Gloo: this collective or dtype is not compared"};
    found = prepared_.emplace(key, std::move(made)).first;
  }
  found->second();
  return {};
}

Status GlooMember::exchange(std::span<const Transfer> transfers, DataType dtype) {
  if (transfers.size() != 2) return Error{ErrorCode::Unavailable, "Gloo: only one send with one recv"};
  const std::size_t bytes = transfers[0].count * size_of(dtype);
  const Key key{Collective::Exchange, dtype, transfers[0].data, transfers[1].data, bytes, 0};
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    std::shared_ptr<gloo::transport::UnboundBuffer> send = context_->createUnboundBuffer(transfers[0].data, bytes);
    std::shared_ptr<gloo::transport::UnboundBuffer> receive = context_->createUnboundBuffer(transfers[1].data, bytes);
    const auto exchange = [send, receive, to = transfers[0].to, from = transfers[1].from] {
      constexpr std::uint64_t kSlot = 1;
      receive->recv(from, kSlot);
      send->send(to, kSlot);
      send->waitSend();
      receive->waitRecv();
    };
    found = prepared_.emplace(key, exchange).first;
  }
  found->second();
  return {};
}

Context connect(int rank, int ranks, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "peer_gloo: error: give RANK RANKS FOLDER TOOL [FLAGS...]\n");
    return 2;
  }
  try {
    wreath::perf::GlooMember member(wreath::perf::connect(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]));
    return wreath::perf::run_peer(member, "Gloo", std::vector<std::string>(argv + 4, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "peer_gloo: error: {}\n", error.what());
    return 1;
  }
}
