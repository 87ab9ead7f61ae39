// The adapter of the ofi transport: one endpoint of libfabric (FI_EP_RDM) for all peers of a communicator.
//
// Nothing is ordered. The 32 bits that come with a write name the channel at the receiver, above what the put tells:
// not every provider says who wrote.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/put/adapter.hpp"
#include "src/put/channel_table.hpp"
#include "src/put/library_descriptor.hpp"
#include "src/put/sentences.hpp"
#include "transports/ofi/channel.hpp"
#include "transports/ofi/closing.hpp"
#include "transports/ofi/handle.hpp"
#include "transports/ofi/newer.hpp"
#include "transports/ofi/provider.hpp"
#include "transports/ofi/read_flush.hpp"

namespace wreath {

// Libfabric has this of a put or of a receive until it has ended. Providers may keep notes at its beginning.
struct OfiRequest {
  fi_context2 notes{};
  OfiChannel* channel = nullptr;  // null for a receive, and where the channel is gone
  std::uint64_t number = 0;
  std::uint32_t bytes = 0;
  bool optional = false;
  bool tells = false;
  bool part = false;  // the bytes of a put whose word goes apart
  bool receive = false;
};

class OfiAdapter final : public Adapter {
 public:
  // `mends` says that links have other adapters, too: a loss is theirs to mend.
  static Result<std::unique_ptr<OfiAdapter>> open(OfiProvider provider, int ranks, bool mends = false);
  // Opens the adapters of a rank. `has_device` says that adapters may read and write memory of its device.
  static Result<std::vector<std::unique_ptr<Adapter>>> open_all(int rank, int ranks, bool has_device = false);
  ~OfiAdapter() override;
  OfiAdapter(const OfiAdapter&) = delete;
  OfiAdapter& operator=(const OfiAdapter&) = delete;

  std::string describe() const override { return provider_.describe(); }
  PutLimits limits() const override { return limits_; }
  Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote) override;
  Result<RegisteredMemory> register_device_memory(const DmaBuf& memory, std::byte* address, Flusher flusher) override;
  Status flush(const RemoteMemory& memory) override;
  RemoteMemory name(std::uint64_t registration) const override;
  void deregister_memory(std::uint64_t registration) override;
  // The channels are destroyed before the adapter.
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t tells) override;
  Result<std::size_t> poll(std::span<PutEvent> events) override;
  int descriptor() const override { return timer_ ? timer_.get() : bell_.get(); }
  bool arm() override;
  std::optional<std::string> trouble() override { return troubles_.next(); }
  bool usable() override { return !mends_ || static_cast<bool>(reopen()); }

  // The channels use what follows.
  const OfiAddress& address() const { return address_; }
  // Takes a peer's address. Mismatch says why no write would reach it.
  Result<fi_addr_t> insert(const OfiAddress& theirs);
  // Says that a channel has another peer's address from now on, or has none. Nothing is under way there.
  void forget(fi_addr_t peer);
  // Submits a put that tells `word`. Returns the request; null where the provider takes no more now.
  Result<OfiRequest*> write(OfiChannel& channel, const Put& put, fi_addr_t to, std::uint32_t word);
  bool tells_apart() const { return provider_.tells_apart; }
  // Returns whether a channel is to go on.
  bool goes_on() const {
    return channels_.any([](const OfiChannel& channel) { return channel.goes_on(); });
  }
  // Returns whether a peer may have put something here, or this rank to a peer.
  bool has_peers() const { return has_peers_; }
  // Closes the endpoint for good, without waiting for that. Returns whether it is closed now: call it again until then.
  bool close_for_good();
  // Closes the endpoint for good and waits for that.
  void close_now();
  bool mends() const { return mends_; }
  // Closes the endpoint when no channel has something under way. Those that are connected are lost, since `why`.
  void mend(const std::string& why) {
    if (!is_mending()) mending_ = why;
  }
  bool is_mending() const { return mending_.has_value(); }
  // Opens the endpoint where it is closed. Unavailable says that it is not closed yet, or that memory was not
  // registered.
  Status reopen();
  void remove(const OfiChannel& channel);

 private:
  struct Registration {
    OfiHandle<fid_mr> region;
    RemoteMemory remote;
  };

  OfiAdapter(OfiProvider provider, int peers, bool mends);
  Status make_endpoint();
  Status enable_endpoint();
  Status make_queue(std::size_t entries);
  void post_receives();
  Error failed(const char* call, std::int64_t returned) const;
  Error not_enabled(std::int64_t returned) const;
  bool close_endpoint();
  Result<std::uint64_t> add_region(OfiNewer<fi_mr_attr>& memory, std::uint64_t flags, const std::byte* first,
                                   std::uint64_t access);
  void close_regions();
  void go_on_mending();
  void lose_all(const std::string& why);
  Result<std::size_t> take_entries(std::span<PutEvent> events);
  bool is_open() const { return endpoint_ != nullptr && !closing_.begun(); }
  OfiRequest& take_request();
  bool take(const fi_cq_data_entry& entry, PutEvent& event);
  bool take_failure(PutEvent& event);
  bool has_mode(int mode) const { return (provider_.info->domain_attr->mr_mode & mode) != 0; }

  const OfiProvider provider_;
  std::string no_device_memory_;  // why it takes none; empty where it does
  const int peers_;
  const bool mends_;
  std::optional<std::string> mending_;  // why a link needs another endpoint, until the old one is closed
  std::uint32_t tells_ = 0;             // of each channel's peer
  PutLimits limits_;
  OfiHandle<fid_fabric> fabric_;
  OfiHandle<fid_domain> domain_;
  std::optional<OfiReadFlush> flush_;  // where the domain is open
  OfiHandle<fid_cq> queue_;
  OfiHandle<fid_av> peer_addresses_;
  struct Peer {
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint32_t channels = 0;
  };
  std::map<std::vector<std::byte>, Peer> inserted_;  // by the address of a peer's endpoint
  OfiHandle<fid_ep> endpoint_;
  OfiClosing closing_;  // of the endpoint
  LibraryDescriptor bell_;
  Fd timer_;  // where the queue has nothing to wait on
  OfiAddress address_;
  ChannelTable<OfiChannel> channels_;
  std::deque<OfiRequest> requests_;
  std::vector<OfiRequest*> free_;
  std::vector<OfiRequest*> receives_;  // those that are not posted
  std::array<std::byte, 64> blank_{};  // stands for the memory of a put that has none
  std::uint64_t blank_registration_ = 0;
  bool has_peers_ = false;
  Sentences troubles_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Registration>> registrations_;
};

}  // namespace wreath
