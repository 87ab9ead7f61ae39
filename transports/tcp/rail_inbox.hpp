// Messages over several sockets come in parts, and in any order. The inbox of a link puts them together and publishes
// them in their order. Each part has a number, so a part that comes twice is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class RailInbox {
 public:
  explicit RailInbox(WireLanes& lanes);

  // Checks a frame with a message. PeerLost names the field that no correct peer sends.
  Status check(const WireHeader& header) const;
  // Returns the place of a frame's payload, or null where it is here already.
  Result<std::byte*> place(const WireHeader& header);
  // Takes a payload that is in its place as a whole.
  void add(const WireHeader& header);

  // The peer waits to hear that large messages have arrived, since it keeps them until then.
  bool owes() const { return !owed_.empty(); }
  // Returns one of the lanes whose arrivals the peer must be told of, and owes it no more.
  std::uint16_t take_owed();
  // Owes the peer the arrivals of all lanes. What it was told may be lost.
  void owe_all();

 private:
  // A message of which a part has come.
  struct Message {
    bool under_way = false;
    bool whole = false;  // it comes as one frame, though it is large
    std::uint32_t bytes = 0;
    std::uint32_t signature = 0;
    std::uint32_t here = 0;  // a bit for each part
    std::byte* target = nullptr;
  };
  // The memory has a place for each message of a lane's window. The vectors are empty before the first message.
  struct Lane {
    LocalMemory small;
    LocalMemory large;
    // The messages in places of `large`; a place without one is free.
    std::vector<std::optional<std::uint32_t>> owners;
    std::vector<Message> messages;  // by sequence
    Landing landing;
    bool owed = false;
  };

  Result<std::byte*> new_place(const WireHeader& header);
  void owe(std::uint16_t lane);
  Message& message(std::uint16_t lane, std::uint32_t sequence) { return places_[lane].messages[sequence & mask_]; }

  WireLanes& lanes_;
  std::uint32_t mask_;
  std::vector<Lane> places_;
  std::vector<std::uint16_t> owed_;
};

}  // namespace wreath
