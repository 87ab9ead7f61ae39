// The decorator gives faults to every link that another transport makes.
#include "wreath/transport.hpp"

#include "transports/faulty/link.hpp"

namespace wreath {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const TransportContext& context, const FaultRates& rates)
      : inner_(std::move(inner)), self_(context.self.rank), shape_(context.shape), rates_(rates) {}

  Status reachable(const Endpoint& self, const Endpoint& peer) const override { return inner_->reachable(self, peer); }
  Result<Offer> offer(const Endpoint& peer) override { return inner_->offer(peer); }
  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    auto link = inner_->connect(peer, std::move(theirs));
    if (!link) return link;
    return std::unique_ptr<Link>(std::make_unique<FaultyLink>(std::move(*link), shape_, self_, peer.rank, rates_));
  }
  WireCounts counts() const override { return inner_->counts(); }

 private:
  std::unique_ptr<Transport> inner_;
  Rank self_;
  FifoShape shape_;
  FaultRates rates_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_faulty(std::unique_ptr<Transport> inner, const TransportContext& context) {
  const auto rates = parse_faults(context.faults);
  if (!rates) return rates.error();
  return std::unique_ptr<Transport>(std::make_unique<FaultyTransport>(std::move(inner), context, *rates));
}

Status check_faults(std::string_view faults) {
  const auto rates = parse_faults(faults);
  return rates ? Status() : Status(rates.error());
}

}  // namespace wreath
