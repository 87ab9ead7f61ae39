// The adapter of the verbs transport: a port, with the completion queue of one communicator.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <memory>
#include <vector>

#include "src/put/channel_table.hpp"
#include "transports/verbs/channel.hpp"
#include "transports/verbs/device.hpp"
#include "transports/verbs/read_flush.hpp"
#include "transports/verbs/settings.hpp"

namespace wreath {

class VerbsAdapter final : public Adapter {
 public:
  // Opens the adapters of a rank.
  static Result<std::vector<std::unique_ptr<Adapter>>> open(const VerbsSettings& settings, int rank, int ranks);
  ~VerbsAdapter() override;

  std::string describe() const override { return port_text(port_); }
  PutLimits limits() const override { return limits_; }
  Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote) override;
  Result<RegisteredMemory> register_device_memory(const DmaBuf& memory, std::byte* address, Flusher flusher) override;
  Status flush(const RemoteMemory& memory) override { return flush_.flush(memory); }
  RemoteMemory name(std::uint64_t registration) const override;
  void deregister_memory(std::uint64_t registration) override;
  // The channels are destroyed before the adapter.
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t tells) override;
  Result<std::size_t> poll(std::span<PutEvent> events) override;
  int descriptor() const override { return bell_->fd; }
  bool arm() override;
  std::optional<std::string> trouble() override { return device_->next_sentence(news_); }
  bool usable() override { return look_again() && port_.active(); }

  // The channels use what follows.
  VerbsDevice& device() const { return *device_; }
  const VerbsSettings& settings() const { return settings_; }
  const PortFacts& port() const { return port_; }
  const GidEntry& gid() const { return gid_; }
  PortNews& news() { return news_; }
  ibv_cq* queue() const { return queue_.get(); }
  std::uint16_t next_generation() { return generation_ = (generation_ + 1) & WorkNumber::kGenerations; }
  // Asks for the port's present state, LID and GID.
  Status look_again();
  // Returns whether connections may have been lost that a new one brings back.
  bool disturbed_since(std::uint32_t disturbances);
  bool has_events_of(const Channel& channel) const;
  void remove(const VerbsChannel& channel);

 private:
  VerbsAdapter(const VerbsSettings& settings, const ChosenPort& port, int peers);
  Status prepare();
  Status make_queue(std::uint32_t tells);
  unsigned access(bool remote) const;
  Result<std::size_t> take(std::span<PutEvent> events, std::size_t& made);
  void clear_bell();

  const VerbsSettings settings_;
  const std::shared_ptr<VerbsDevice> device_;
  PortFacts port_;
  GidEntry gid_;
  const int peers_;
  PutLimits limits_;
  PortNews news_;
  VerbsHandle<ibv_comp_channel> bell_;
  LibraryDescriptor bell_descriptor_;
  VerbsHandle<ibv_cq> queue_;
  bool armed_ = false;
  unsigned unacknowledged_ = 0;  // events of the bell
  std::uint16_t generation_ = 0;
  ChannelTable<VerbsChannel> channels_;
  std::deque<PutEvent> events_;  // those that arm() found
  ReadFlush flush_;
};

}  // namespace wreath
