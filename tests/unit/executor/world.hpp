// All ranks of a job in one thread: the real executor over the real FIFOs, advanced in random turns.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "src/executor/host.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"

namespace wreath {

struct WorldOptions {
  std::uint64_t count = 1;
  std::uint64_t tile_bytes = 128;
  std::uint32_t slots = 2;
  bool in_place = false;
  std::uint32_t first_sequence = 0;
};

class World {
 public:
  World(std::vector<Lowered> programs, const WorldOptions& options) : options_(options) {
    const int ranks = static_cast<int>(programs.size());
    std::uint16_t lanes = 1;
    for (const Lowered& program : programs) lanes = std::max(lanes, static_cast<std::uint16_t>(program.lanes.size()));
    const FifoShape shape{lanes, options.slots, 4096, options.first_sequence, 1};
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<OneRank>());
      ranks_.back()->segment = std::move(OwnSegment::create(rank, ranks, shape, false)).value();
    }
    for (int rank = 0; rank < ranks; ++rank) link(rank);
    for (int rank = 0; rank < ranks; ++rank) bind(rank, std::move(programs[static_cast<std::size_t>(rank)]));
  }

  // Runs the operation once on `inputs` (one per rank). What went wrong; empty: every output equals `expected`.
  std::string run(const std::vector<std::vector<float>>& inputs, const std::vector<float>& expected,
                  std::mt19937_64& random) {
    start(inputs);
    std::vector<std::size_t> open(ranks_.size());
    for (std::size_t rank = 0; rank < open.size(); ++rank) open[rank] = rank;
    std::size_t idle = 0;
    while (!open.empty()) {
      const std::size_t turn = random() % open.size();
      switch (ranks_[open[turn]]->lanes.run(1)) {
        case Advance::Done: open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn)); [[fallthrough]];
        case Advance::Advanced: idle = 0; break;
        case Advance::Failed: return "failed";
        case Advance::Blocked: ++idle;
      }
      if (idle > 50 * ranks_.size() && all_blocked(open)) return "deadlock";
    }
    for (const auto& rank : ranks_) {
      const std::vector<float>& output = options_.in_place ? rank->input : rank->output;
      if (std::memcmp(output.data(), expected.data(), expected.size() * sizeof(float)) != 0) return "wrong output";
    }
    return {};
  }

 private:
  struct OneRank {
    std::unique_ptr<OwnSegment> segment;
    std::vector<std::unique_ptr<Link>> links;
    Plan plan;
    LaneScheduler lanes;
    std::vector<float> input;
    std::vector<float> output;
  };

  void link(int rank) {
    OneRank& own = *ranks_[static_cast<std::size_t>(rank)];
    own.links.resize(ranks_.size());
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (static_cast<int>(peer) == rank) continue;
      Offer offer = std::move(ranks_[peer]->segment->offer(rank, false)).value();
      own.links[peer] = std::move(MappedLink::connect(*own.segment, static_cast<Rank>(peer), std::move(offer))).value();
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

  void start(const std::vector<std::vector<float>>& inputs) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      OneRank& own = *ranks_[rank];
      own.input = inputs[rank];
      own.output.assign(options_.count, -1.0F);
      OperationState state;
      state.geometry = make_geometry(options_.count, sizeof(float), own.plan.lowered.parts, own.plan.lowered.data_lanes,
                                     options_.tile_bytes);
      state.buffers[0] = reinterpret_cast<std::byte*>(own.input.data());
      state.buffers[1] = reinterpret_cast<std::byte*>(options_.in_place ? own.input.data() : own.output.data());
      state.signature = 7;
      state.epoch = 1;
      const CopyKernels& copies = copy_kernels();
      own.lanes.start(own.plan, state, {reduce_kernel(DataType::Float32, ReduceOp::Sum), copies.plain, copies.fill});
    }
  }

  bool all_blocked(const std::vector<std::size_t>& open) {
    for (const std::size_t rank : open) {
      if (ranks_[rank]->lanes.run(1) != Advance::Blocked) return false;
    }
    return true;
  }

  WorldOptions options_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

}  // namespace wreath
