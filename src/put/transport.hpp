// A transport whose links put over one adapter. A network brings its Adapter and a row of the table, and no more.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "src/put/link.hpp"
#include "wreath/transport.hpp"

namespace wreath {

class PutTransport final : public Transport {
 public:
  // Returns InvalidArgument or Unavailable where the shape, the options or the limits of the adapter do not fit, with
  // the value.
  static Result<std::unique_ptr<Transport>> make(std::shared_ptr<PutPort> port, const TransportContext& context,
                                                 const PutOptions& options);

  Status reachable(const Endpoint&, const Endpoint&) const override { return {}; }
  // Makes the link's channels and the slots of its first messages, and names them.
  Result<Offer> offer(const Endpoint& peer) override;
  // Returns Mismatch for an offer that no correct peer makes, and for a peer that got no offer.
  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override;
  WireCounts counts() const override { return port_->wire_counts(); }

 private:
  PutTransport(std::shared_ptr<PutPort> port, const FifoShape& shape, const PutOptions& options)
      : port_(std::move(port)), shape_(shape), options_(options) {}

  std::shared_ptr<PutPort> port_;
  FifoShape shape_;
  PutOptions options_;
  std::map<Rank, std::unique_ptr<PutLink>> offered_;
};

}  // namespace wreath
