// The table of peers: copies of a device, the handwritten loops, and NCCL.
#include "perf/common/peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "perf/common/nccl.hpp"
#include "wreath/kernel.hpp"

namespace wreath::perf {
namespace {

// Copies the input to the output on the device of rank 0 alone, so that no other copy takes of its bandwidth.
class CopyMember final : public CommunicatorMember {
 public:
  using CommunicatorMember::CommunicatorMember;
  Status start(const Call& call) override {
    return rank() == 0 ? call.stream->copy(call.output, call.input, call.count * size_of(call.dtype)) : Status();
  }
  std::string plan_for(Collective, std::size_t) const override { return "a copy"; }
};

struct Owner {
  Communicator communicator;
};

class HandwrittenMember final : private Owner, public CommunicatorMember {
 public:
  explicit HandwrittenMember(Communicator made) : Owner{std::move(made)}, CommunicatorMember(communicator) {}
};

class NcclMember final : public CommunicatorMember {
 public:
  NcclMember(Communicator& own, Stream& stream, std::unique_ptr<Nccl> nccl)
      : CommunicatorMember(own), stream_(stream), nccl_(std::move(nccl)) {}
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;
  ~NcclMember() override {
    if (communicator_ == nullptr) return;
    static_cast<void>(stream_.synchronize());
    static_cast<void>(add_cuda_work(stream_, [this](void*) { return nccl_->destroy(communicator_), Status(); }));
  }
  // Joins the other ranks, while the device's context is current.
  Status join(const NcclId& id) {
    return add_cuda_work(stream_, [&](void*) -> Status {
      const auto joined = nccl_->join(ranks(), id, rank());
      if (!joined) return joined.error();
      communicator_ = *joined;
      return {};
    });
  }
  Status start(const Call& call) override {
    return add_cuda_work(*call.stream, [this, call](void* cuda_stream) {
      return nccl_->all_reduce(call.input, call.output, call.count, call.dtype, communicator_, cuda_stream);
    });
  }
  std::string plan_for(Collective, std::size_t) const override { return "NCCL " + nccl_->version(); }

 private:
  Stream& stream_;
  std::unique_ptr<Nccl> nccl_;
  void* communicator_ = nullptr;
};

using Made = Result<std::unique_ptr<Member>>;

Made make_copies(Communicator& own, const Options&, Stream*) { return Made(std::make_unique<CopyMember>(own)); }

Made make_handwritten(Communicator& own, const Options& options, Stream*) {
  CommunicatorOptions other = options.communicator;
  other.device = device_names(options.memory, own.rank());
  other.overrides.executor = "handwritten";
  auto made = create_alike(own, other);
  if (!made) return made.error();
  return Made(std::make_unique<HandwrittenMember>(*std::move(made)));
}

Made make_nccl(Communicator& own, const Options& options, Stream* stream) {
  auto nccl = Nccl::find(options.peer_file);
  if (!nccl) return nccl.error();
  Result<NcclId> id{NcclId{}};
  if (own.rank() == 0) id = (*nccl)->make_id();
  if (!id) return id.error();
  WREATH_TRY(own.broadcast(id->internal, id->internal, sizeof id->internal, DataType::Uint8, 0));
  auto made = std::make_unique<NcclMember>(own, *stream, *std::move(nccl));
  WREATH_TRY(made->join(*id));
  return Made(std::move(made));
}

struct PeerRow {
  std::string_view name;
  // Whether it needs streams, and has no collective but all_reduce.
  bool in_streams;
  Made (*make)(Communicator& own, const Options& options, Stream* stream);
};
constexpr std::array kPeers{PeerRow{"copies", true, make_copies}, PeerRow{"handwritten", false, make_handwritten},
                            PeerRow{"nccl", true, make_nccl}};

const PeerRow* find_row(const Options& options) {
  const auto* const found =
      std::find_if(kPeers.begin(), kPeers.end(), [&](const PeerRow& row) { return row.name == options.peer; });
  return found == kPeers.end() ? nullptr : found;
}

}  // namespace

std::string why_no_peer(const CollectiveRow& row, const Options& options) {
  if (options.peer.empty()) return {};
  const PeerRow* const peer = find_row(options);
  if (peer == nullptr) return "give copies, handwritten, nccl or nccl=FILE";
  if (!options.peer_file.empty() && peer->make != make_nccl) return "only nccl takes a file";
  if (!peer->in_streams) return {};
  if (!streams(options.memory)) return "needs --memory device, pinned or host-device";
  if (row.collective != Collective::AllReduce) return "only all_reduce_perf has it";
  const auto served = [](DataType dtype) { return dtype == DataType::Float32 || dtype == DataType::BFloat16; };
  const bool sums =
      std::all_of(options.ops.begin(), options.ops.end(), [](ReduceOp op) { return op == ReduceOp::Sum; });
  if (peer->make == make_nccl && !(sums && std::all_of(options.dtypes.begin(), options.dtypes.end(), served))) {
    return "it is measured with sums of float and bfloat16";
  }
  return {};
}

Status find_peer(const Options& options) {
  const PeerRow* const peer = find_row(options);
  if (peer == nullptr || peer->make != make_nccl) return {};
  if (options.memory == MemoryPlace::HostDevice) return Error{ErrorCode::Unavailable, "--peer nccl: NCCL needs a GPU"};
  const auto nccl = Nccl::find(options.peer_file);
  return nccl ? Status() : Status(nccl.error());
}

Average peer_average(const Options& options) {
  return find_row(options)->make == make_copies ? Average::Rank0 : options.average;
}

Result<std::unique_ptr<Member>> make_peer(Communicator& own, const Options& options, Stream* stream) {
  return find_row(options)->make(own, options, stream);
}

Result<Communicator> create_alike(Communicator& all, const CommunicatorOptions& options) {
  Result<UniqueId> id{UniqueId{}};
  if (all.rank() == 0) id = UniqueId::create();
  if (!id) return id.error();
  WREATH_TRY(all.broadcast(id->bytes.data(), id->bytes.data(), id->bytes.size(), DataType::Uint8, 0));
  return Communicator::create(*id, all.rank(), all.ranks(), options);
}

}  // namespace wreath::perf
