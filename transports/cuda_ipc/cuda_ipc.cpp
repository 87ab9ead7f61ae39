// Ranks whose devices reach each other's memory: on one GPU, or on two over NVLink or PCIe; in one process or in
// several. The host device stands for a GPU.
#include <fmt/format.h>

#include <utility>

#include "src/device/library_device.hpp"
#include "transports/cuda_ipc/link.hpp"
#include "transports/transports.hpp"

namespace wreath {
namespace {

class CudaIpcTransport final : public Transport {
 public:
  CudaIpcTransport(const TransportContext& context, std::shared_ptr<DeviceEnds> ends)
      : self_(context.self),
        device_(static_cast<LibraryDevice&>(*context.device)),
        segment_(*context.segment),
        ends_(std::move(ends)) {}

  std::string_view name() const override { return "cuda_ipc"; }
  bool needs_stream() const override { return false; }

  Status reachable(const Endpoint& self, const Endpoint& peer) const override {
    const auto unavailable = [&](std::string_view why) {
      return Error{ErrorCode::Unavailable, fmt::format("rank {} {}", peer.rank, why)};
    };
    if (self.host != peer.host) return unavailable("is on another host");
    if (peer.device.kind == EndpointDevice::Kind::None) return unavailable("has no device");
    if (const Status reached = device_.reaches(peer.device); !reached) {
      return unavailable(fmt::format("is on another device: {}", reached.error().message));
    }
    return {};
  }

  Result<Offer> offer(const Endpoint& peer) override {
    return segment_.offer(peer.rank, peer.process != self_.process);
  }

  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    WREATH_TRY(reachable(self_, peer));
    return DeviceLink::connect(segment_, ends_, peer.rank, std::move(theirs));
  }

 private:
  Endpoint self_;
  LibraryDevice& device_;
  OwnSegment& segment_;
  std::shared_ptr<DeviceEnds> ends_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_cuda_ipc(const TransportContext& context) {
  if (context.device == nullptr) return Error{ErrorCode::Unavailable, "cuda_ipc: this rank has no device"};
  if (context.segment == nullptr) {
    return Error{ErrorCode::Unavailable, "cuda_ipc: this rank has no control segment in its device's memory"};
  }
  auto ends = DeviceEnds::create(*context.segment);
  if (!ends) return ends.error();
  return std::unique_ptr<Transport>(new CudaIpcTransport(context, *std::move(ends)));
}

}  // namespace wreath
