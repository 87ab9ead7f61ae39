// The ofi transport puts through libfabric: EFA, or another provider that is named. The library is loaded where one is
// wanted.
#include "wreath/transport.hpp"

#include "src/put/transport.hpp"
#include "src/put/way.hpp"
#include "transports/ofi/adapter.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_ofi(const TransportContext& context) {
  auto provider = find_provider(context.self.rank);
  if (!provider) return provider.error();
  auto adapter = OfiAdapter::open(*std::move(provider), context.ranks);
  if (!adapter) return adapter.error();
  return PutTransport::make(std::make_shared<PutPort>(*std::move(adapter)), context, PutOptions{});
}

Status probe_ofi() {
  const auto provider = find_provider(0);
  return provider ? Status() : Status(provider.error());
}

MessageWay explain_ofi(std::uint64_t bytes) {
  constexpr PutLimits kUsual{.put_bytes = 1U << 30};
  auto provider = find_provider(0);
  if (!provider) return way_of(bytes, kUsual, {});
  return way_over(OfiAdapter::open(*std::move(provider), 2), kUsual, bytes);
}

}  // namespace wreath
