// Makes the segments and links of all ranks of a job in one process, without an engine. Tests and benchmarks use them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "src/executor/host.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"

namespace wreath {

class LinkedRanks {
 public:
  LinkedRanks(int ranks, const FifoShape& shape) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      segments_.push_back(std::move(OwnSegment::create(rank, ranks, shape, host_segment_memory(false))).value());
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      auto& links = links_.emplace_back(static_cast<std::size_t>(ranks));
      for (Rank peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        Offer offer = std::move(segment(peer).offer(rank, false)).value();
        links[static_cast<std::size_t>(peer)] =
            std::move(MappedLink::connect(segment(rank), peer, std::move(offer))).value();
      }
    }
  }

  // Points the plan at the FIFOs that its schedule names, and tells peers of new staging memory.
  void bind(Rank rank, Plan& plan) {
    plan.targets.clear();
    plan.sources.clear();
    for (const FifoEnd& end : plan.lowered.targets) {
      link(rank, end.peer).prepare(end.lane).value();
      plan.targets.push_back(&link(rank, end.peer).send_fifo(end.lane));
    }
    for (const FifoEnd& end : plan.lowered.sources) plan.sources.push_back(&link(rank, end.peer).recv_fifo(end.lane));
    for (Rank peer = 0; peer < static_cast<Rank>(segments_.size()); ++peer) {
      if (peer == rank) continue;
      auto news = segment(rank).take_announcements(peer);
      for (Announcement& news_of : *news) {
        link(peer, rank).accept_region(news_of.index, std::move(news_of.offer)).value();
      }
    }
  }

  MappedLink& link(Rank rank, Rank peer) {
    return *links_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(peer)];
  }

 private:
  OwnSegment& segment(Rank rank) { return *segments_[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<OwnSegment>> segments_;
  std::vector<std::vector<std::unique_ptr<MappedLink>>> links_;  // by rank, then by peer
};

}  // namespace wreath
