// The ofi transport puts through libfabric: EFA, or another provider that is named. The library is loaded where one is
// wanted.
#include "wreath/transport.hpp"

#include "src/put/transport.hpp"
#include "src/put/way.hpp"
#include "transports/ofi/adapter.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_ofi(const TransportContext& context) {
  const bool has_device = context.self.device.kind != EndpointDevice::Kind::None;
  auto port = PutPort::make(OfiAdapter::open_all(context.self.rank, context.ranks, has_device));
  if (!port) return port.error();
  const auto waiting = PlaceWaiting::read();
  if (!waiting) return waiting.error();
  return PutTransport::make(*std::move(port), context, {1, context.stall_ms, *waiting});
}

Status probe_ofi() {
  const auto providers = find_providers(0);
  return providers ? Status() : Status(providers.error());
}

MessageWay explain_ofi(std::uint64_t bytes) {
  constexpr PutLimits kUsual{.put_bytes = 1U << 30};
  return way_over(PutPort::make(OfiAdapter::open_all(0, 2)), kUsual, bytes);
}

}  // namespace wreath
