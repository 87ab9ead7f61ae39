// The receiving half of a link over one socket publishes messages, which come in their order.
#pragma once

#include <cstddef>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_reader.hpp"

namespace wreath {

class TcpReceiver final : public FrameReader {
 public:
  TcpReceiver(int socket, WireLanes& lanes, TcpCounts& counts);

 private:
  Status check(const WireHeader& header) const override;
  void take_report(const WireHeader& header) override;
  Result<std::byte*> destination(const WireHeader& header) override;
  void take_payload(const WireHeader& header, const std::byte* data) override;
  Status check_order(const WireHeader& header) const;
  Status check_credit(const WireHeader& header) const;

  // The memory has a place for each message of a lane's window.
  struct Places {
    LocalMemory small;
    LocalMemory large;
    Landing landing;
  };

  WireLanes& lanes_;
  std::vector<Places> places_;  // by lane
};

}  // namespace wreath
