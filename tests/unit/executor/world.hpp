// Runs all ranks of a job in one thread: the real executor over the real FIFOs, advanced in random turns.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/executor/handwritten/handwritten.hpp"
#include "src/executor/host.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/untouched_memory.hpp"

namespace wreath {

struct WorldShape {
  std::uint32_t slots = 2;
  std::uint32_t first_sequence = 0;
  std::size_t resident = LaneScheduler::kAllResident;
  std::uint64_t single_copy_bytes = 0;           // see OperationState
  Streamed streamed = Streamed::Nothing;         // see OperationState
  HandwrittenLoop loop = HandwrittenLoop::None;  // see OperationState
  std::uint32_t slot_bytes = 4096;
  std::uint32_t headers = 0;           // FifoShape::mapped_headers
  LaneOrder order = LaneOrder::Turns;  // see OperationState
  CopyKernels copies = copy_kernels();
};

// Holds what LaneScheduler::start() takes for one rank's call.
struct RankCall {
  OperationState state;
  // Where `combine` is null, nothing is combined.
  Arithmetic arithmetic{};
};

inline OperationState state_of(const Geometry& geometry, std::byte* input, std::byte* output) {
  OperationState state;
  state.geometry = geometry;
  state.buffers[static_cast<int>(Buffer::Input)] = input;
  state.buffers[static_cast<int>(Buffer::Output)] = output;
  state.signature = 7;
  state.epoch = 1;
  return state;
}

class World {
 public:
  World(std::vector<Lowered> programs, const WorldShape& shape) : shape_(shape) {
    const int ranks = static_cast<int>(programs.size());
    std::uint16_t lanes = 1;
    for (const Lowered& program : programs) lanes = std::max(lanes, static_cast<std::uint16_t>(program.lanes.size()));
    FifoShape fifos{lanes, shape.slots, shape.slot_bytes, shape.first_sequence, 1};
    fifos.mapped_headers = shape.headers;
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<OneRank>());
      ranks_.back()->segment =
          std::move(OwnSegment::create(rank, ranks, fifos, std::make_unique<testing_support::UntouchedMemory>()))
              .value();
      ranks_.back()->lanes.prepare_to_pull();
    }
    for (int rank = 0; rank < ranks; ++rank) link(rank);
    for (int rank = 0; rank < ranks; ++rank) bind(rank, std::move(programs[static_cast<std::size_t>(rank)]));
  }

  // Runs one operation, where calls[r] is rank r's. Returns what went wrong, or an empty text where all ranks are done.
  std::string run(const std::vector<RankCall>& calls, std::mt19937_64& random) {
    std::vector<std::size_t> open(ranks_.size());
    for (std::size_t rank = 0; rank < open.size(); ++rank) open[rank] = rank;
    for (const std::size_t rank : open) start(rank, calls[rank]);
    std::size_t idle = 0;
    while (!open.empty()) {
      const std::size_t turn = random() % open.size();
      switch (scheduler(open[turn]).run(1)) {
        case Advance::Done: open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn)); [[fallthrough]];
        case Advance::Advanced: idle = 0; break;
        case Advance::Failed: return "rank " + std::to_string(open[turn]) + " failed";
        case Advance::Blocked: ++idle;
      }
      if (idle > 50 * ranks_.size() && all_blocked(open)) return "deadlock";
    }
    return {};
  }

  // Starts one rank's call for a caller that advances scheduler(rank) by itself.
  void start(std::size_t rank, RankCall call) {
    call.state.single_copy_bytes = shape_.single_copy_bytes;
    call.state.streamed = shape_.streamed;
    call.state.loop = shape_.loop;
    call.state.order = shape_.order;
    call.state.ranks = static_cast<std::uint32_t>(ranks());
    call.state.rank = static_cast<std::uint32_t>(rank);
    HostProcessor processor{call.arithmetic, shape_.copies};
    processor.by_hand = &advance_handwritten;
    scheduler(rank).start(ranks_[rank]->plan, call.state, processor, shape_.resident);
  }

  // Makes fills behave as if slots were found to be filled faster past the caches.
  void fill_past_caches() {
    for (const auto& rank : ranks_) {
      for (SendFifo* fifo : rank->plan.targets) {
        for (FillHistory& history : fifo->past_caches) {
          history.takes_other = true;
          history.turns = 1U << 30;
        }
      }
    }
  }
  Plan& plan(std::size_t rank) { return ranks_[rank]->plan; }
  // Makes peers throw away what they read of the rank's memory from now on.
  void abort(std::size_t rank) { ranks_[rank]->segment->set_aborted(); }
  LaneScheduler& scheduler(std::size_t rank) { return ranks_[rank]->lanes; }
  int ranks() const { return static_cast<int>(ranks_.size()); }

 private:
  struct OneRank {
    std::unique_ptr<OwnSegment> segment;
    std::vector<std::unique_ptr<MappedLink>> links;
    Plan plan;
    LaneScheduler lanes;
  };

  void link(int rank) {
    OneRank& own = *ranks_[static_cast<std::size_t>(rank)];
    own.links.resize(ranks_.size());
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (static_cast<int>(peer) == rank) continue;
      Offer offer = std::move(ranks_[peer]->segment->offer(rank, false)).value();
      own.links[peer] = std::move(MappedLink::connect(*own.segment, static_cast<Rank>(peer), std::move(offer),
                                                      {shape_.single_copy_bytes > 0}))
                            .value();
    }
  }

  void bind(int rank, Lowered program) {
    OneRank& own = *ranks_[static_cast<std::size_t>(rank)];
    own.plan.lowered = std::move(program);
    for (const FifoEnd& end : own.plan.lowered.targets) {
      own.links[static_cast<std::size_t>(end.peer)]->prepare(end.lane).value();
      own.plan.targets.push_back(&own.links[static_cast<std::size_t>(end.peer)]->send_fifo(end.lane));
    }
    for (const FifoEnd& end : own.plan.lowered.sources) {
      own.plan.sources.push_back(&own.links[static_cast<std::size_t>(end.peer)]->recv_fifo(end.lane));
    }
    announce(rank);
  }

  void announce(int rank) {
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (static_cast<int>(peer) == rank) continue;
      auto news = ranks_[static_cast<std::size_t>(rank)]->segment->take_announcements(static_cast<Rank>(peer));
      for (Announcement& announcement : *news) {
        ranks_[peer]
            ->links[static_cast<std::size_t>(rank)]
            ->accept_region(announcement.index, std::move(announcement.offer))
            .value();
      }
    }
  }

  bool all_blocked(const std::vector<std::size_t>& open) {
    return std::all_of(open.begin(), open.end(),
                       [&](std::size_t rank) { return scheduler(rank).run(1) == Advance::Blocked; });
  }

  WorldShape shape_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

}  // namespace wreath
