// Makes two ranks of one process, linked by mapped links over their segments.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/fifo/access.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"

namespace wreath {

inline FifoShape shape_of(std::uint32_t slot_count, std::uint32_t first_sequence = 0, std::uint32_t slot_bytes = 4096) {
  return {.lanes = 2, .slot_count = slot_count, .slot_bytes = slot_bytes, .first_sequence = first_sequence, .epoch = 0};
}

struct Pair {
  std::unique_ptr<OwnSegment> segments[2];
  std::unique_ptr<MappedLink> links[2];  // rank r holds links[r]

  Pair(const FifoShape& shape, bool shareable) {
    for (Rank rank : {0, 1})
      segments[rank] = std::move(OwnSegment::create(rank, 2, shape, host_segment_memory(shareable))).value();
    Offer offers[2];
    for (Rank rank : {0, 1}) offers[rank] = std::move(segments[rank]->offer(1 - rank, shareable)).value();
    for (Rank rank : {0, 1}) {
      links[rank] = std::move(MappedLink::connect(*segments[rank], 1 - rank, std::move(offers[1 - rank]))).value();
    }
  }

  // Tells the peer of `rank` about the new regions of `rank`, as the communicator does.
  void announce(Rank rank) {
    std::vector<Announcement> news = segments[rank]->take_announcements(1 - rank).value();
    for (Announcement& announcement : news) {
      links[1 - rank]->accept_region(announcement.index, std::move(announcement.offer)).value();
    }
  }

  SendFifo& send(Rank rank, std::uint16_t lane = 0) { return links[rank]->send_fifo(lane); }
  RecvFifo& recv(Rank rank, std::uint16_t lane = 0) { return links[rank]->recv_fifo(lane); }
};

// Sends `value` through staging in a message of `bytes` bytes.
inline void send_value(SendFifo& fifo, std::uint64_t value, std::uint32_t bytes = sizeof(std::uint64_t)) {
  std::memcpy(stage(fifo), &value, sizeof(value));
  next_slot(fifo).bytes = bytes;
  publish(fifo);
}

inline std::uint64_t value_at(const std::byte* data) {
  std::uint64_t value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

}  // namespace wreath
