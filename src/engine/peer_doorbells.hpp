// PeerDoorbells wakes the peers that sleep.
#pragma once

#include <vector>

#include "src/fifo/segment.hpp"
#include "src/membership/links.hpp"

namespace wreath {

class PeerDoorbells {
 public:
  void connect(const Links& links) {
    for (const Rank peer : links.mapped()) {
      peers_.push_back({links.mapped(peer)->peer().sleeping, links.mapped(peer)});
    }
  }
  // Wakes the peers that sleep. The caller calls it after stores that mapped peers may wait for.
  void ring() {
    bool fenced = false;
    for (const Peer& peer : peers_) {
      if (is_asleep(*peer.sleeping, fenced)) peer.link->wake();
    }
  }

 private:
  struct Peer {
    const Counter* sleeping;
    MappedLink* link;
  };
  std::vector<Peer> peers_;
};

}  // namespace wreath
