// Declares the rails of a link for the sources of RailLink.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "transports/tcp/frame_batch.hpp"
#include "transports/tcp/frame_reader.hpp"
#include "transports/tcp/rail_link.hpp"
#include "transports/tcp/rail_return.hpp"

namespace wreath {

// Reads one rail.
class RailLink::Receiver final : public FrameReader {
 public:
  Receiver(int socket, RailLink& link)
      : FrameReader(socket, link.lanes_.shape(), link.growth_ ? Framing::Either : Framing::Parts, *link.counts_),
        link_(link) {}

 private:
  Status check(const WireHeader& header) const override {
    if (has_message(header.kind)) WREATH_TRY(link_.inbox_.check(header));
    return link_.sender_.check(header);
  }
  void take_report(const WireHeader& header) override { link_.sender_.take_report(header); }
  Result<std::byte*> destination(const WireHeader& header) override { return link_.inbox_.place(header); }
  void take_payload(const WireHeader& header, const std::byte*) override;

  RailLink& link_;
};

struct RailLink::Rail {
  Rail(std::uint8_t its_number, RailSocket own, RailLink& link)
      : number(its_number),
        socket(std::move(own.socket)),
        interface(std::move(own.interface)),
        addresses{local_address(socket.get()), peer_address(socket.get())},
        first(addresses),
        name(fmt::format("{}{}to {}", interface, interface.empty() ? "" : " ", addresses.remote.text())),
        batch(socket.get(), *link.counts_),
        receiver(socket.get(), link) {}

  // Returns whether a lost socket can be replaced: others have no addresses.
  bool can_return() const { return first.known(); }

  std::uint8_t number;
  Fd socket;  // empty once the rail is lost
  std::string interface;
  RailAddresses addresses;
  RailAddresses first;  // of its first socket: they name the rail while it has none
  std::string name;
  FrameBatch batch;
  Receiver receiver;
  std::string why;  // it was lost
  std::int64_t lost_ns = 0;
  bool said = false;
  bool unneeded = false;                  // its end is no loss
  std::optional<RailReturn> replacement;  // while the rail is lost
  // The socket replaced another one then, after this pause.
  std::int64_t replaced_ns = 0;
  std::int64_t pause_ns = 0;
};

}  // namespace wreath
