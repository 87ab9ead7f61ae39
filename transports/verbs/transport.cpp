// The verbs transport puts through reliable connected queue pairs of an RDMA adapter: InfiniBand or RoCE. Its library
// is loaded while the program runs, where it is installed.
#include "wreath/transport.hpp"

#include "src/put/transport.hpp"
#include "src/put/way.hpp"
#include "transports/verbs/adapter.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_verbs(const TransportContext& context) {
  const auto settings = VerbsSettings::read();
  if (!settings) return settings.error();
  auto port = PutPort::make(VerbsAdapter::open(*settings, context.self.rank, context.ranks));
  if (!port) return port.error();
  const auto waiting = PlaceWaiting::read();
  if (!waiting) return waiting.error();
  // Attempts to connect again count as movement, so that the stall clock does not end them.
  return PutTransport::make(*std::move(port), context, {settings->queue_pairs, context.stall_ms, *waiting});
}

Status probe_verbs() {
  const auto settings = VerbsSettings::read();
  if (!settings) return settings.error();
  const auto ports = find_ports(*settings, 0);
  return ports ? Status() : Status(ports.error());
}

MessageWay explain_verbs(std::uint64_t bytes) {
  constexpr PutLimits kUsual{.inline_bytes = 256, .put_bytes = 1U << 30, .ordered = true};
  const auto settings = VerbsSettings::read();
  return way_over(PutPort::make(VerbsAdapter::open(settings ? *settings : VerbsSettings(), 0, 2)), kUsual, bytes);
}

}  // namespace wreath
