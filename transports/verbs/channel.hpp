// A channel is a reliable connected queue pair. Its receives hold no memory: they only tell of puts that came.
//
// Each queue pair has receives of its own, as many as its peer may tell at once. A shared queue would hold as many,
// could not grow on most adapters, and would let one peer use up the receives of all.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/put/adapter.hpp"
#include "transports/verbs/queue_pair.hpp"

namespace wreath {

class VerbsAdapter;

// Names a request of a queue pair in its completion.
struct WorkNumber {
  std::uint32_t position = 0;  // among the sends of its queue pair
  std::uint16_t channel = 0;
  std::uint16_t generation = 0;  // of the channel
  bool receive = false;

  static constexpr std::uint16_t kGenerations = 0x7FFF;
  std::uint64_t pack() const {
    return std::uint64_t{receive} << 63U | std::uint64_t{generation} << 48U | std::uint64_t{channel} << 32U | position;
  }
  static WorkNumber unpack(std::uint64_t bits) {
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint16_t>(bits >> 32U),
            static_cast<std::uint16_t>(bits >> 48U & kGenerations), bits >> 63U != 0};
  }
};

class VerbsChannel final : public Channel {
 public:
  static Result<std::unique_ptr<VerbsChannel>> make(VerbsAdapter& adapter, std::uint16_t index, std::uint32_t tells);
  ~VerbsChannel() override;

  std::uint16_t index() const override { return index_; }
  std::string describe() const override { return pair_.describe(); }
  std::vector<std::byte> address() const override { return encode_address(pair_.address()); }
  // Unavailable says that a port is down.
  Status connect(std::span<const std::byte> theirs) override;
  Result<std::size_t> put(std::span<const Put> puts) override;
  bool stop() override;
  Status reset() override;

  // Takes a completion of this index. Returns whether it made `event`.
  bool on_completion(const ibv_wc& completion, PutEvent& event);
  // Returns how many completions a channel may have at once.
  static std::uint32_t completions(const PutLimits& limits, std::uint32_t tells);

 private:
  enum class State : std::uint8_t { Ready, Connected, Lost, Stopping };

  VerbsChannel(VerbsAdapter& adapter, std::uint16_t index, std::uint32_t tells);
  Status prepare();
  Status post_receives(std::uint32_t count);
  void fill(const Put& put, std::uint32_t position, std::size_t at);
  bool lose(const ibv_wc& completion, PutEvent& event);

  VerbsAdapter& adapter_;
  const std::uint16_t index_;
  const std::uint32_t receives_;
  QueuePair pair_;
  State state_ = State::Ready;
  std::uint16_t generation_ = 0;
  std::uint32_t posted_ = 0;    // sends
  std::uint32_t ended_ = 0;     // those whose completions have come
  std::uint32_t signaled_ = 0;  // after the last one that has a completion of its own
  std::uint32_t waiting_ = 0;   // receives that are posted
  struct Report {
    bool wanted = false;
    std::uint64_t number = 0;
  };
  std::vector<Report> reports_;  // by position
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> pieces_;
  std::vector<ibv_recv_wr> receive_requests_;
  Status broken_;  // the reason why receives could not be posted
};

}  // namespace wreath
