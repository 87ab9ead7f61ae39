// Links holds the links of a rank to all its peers. It knows which transport serves each pair, and why a better one
// does not.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/interrupt.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"
#include "src/membership/members.hpp"
#include "wreath/communicator.hpp"
#include "wreath/transport.hpp"

namespace wreath {

struct LinkFacts;

// A rank that has a device gives these to its links.
struct DeviceSegments {
  std::unique_ptr<SegmentMemory> memory;
  // Returns success where the device maps the memory of a peer's device, and the reason otherwise.
  std::function<Status(const EndpointDevice& theirs)> reaches;
};

// Says whether a transport of that name may be used. An empty list allows all.
bool allows(const CommunicatorOptions& options, std::string_view transport);

class Links {
 public:
  // Makes this rank's segment and the transports that `options` allow. With `single_copy`, ranks may read each other's
  // memory. `device` is empty where the rank has none, or its options do not let peers map its memory. A link over
  // streams has `streams` of them, as TransportContext says.
  static Result<std::unique_ptr<Links>> create(const Membership& membership, const FifoShape& shape,
                                               const CommunicatorOptions& options, bool single_copy,
                                               DeviceSegments device = {}, std::size_t streams = 1);
  // Agrees with every peer on a transport, best first. Both ends try each candidate; the pair uses the first that works
  // for both. Their messages come through the handlers meanwhile. `crowded` says that this rank's host has fewer cores
  // than ranks.
  Result<LinkFacts> connect(Membership& membership, Members& control, Deadline deadline, bool crowded);

  // Tells all ranks a text about `subject`, a number that nothing else uses. Returns the texts of the others, by rank.
  Result<std::vector<std::string>> tell_all(Members& control, std::uint32_t subject, const std::string& text,
                                            Deadline deadline);
  // Gives each rank its entry of `own`, and returns the entries from the others, by rank.
  Result<std::vector<Offer>> swap_offers(Members& control, std::uint32_t subject, std::vector<Offer> own,
                                         Deadline deadline);

  // Adds the handlers of the messages by which ranks link.
  void handle(ControlHandlers& handlers);
  // Takes memory of `from` that its slots name; the progress thread calls it. An offer that comes before connect() is
  // over waits until then. Its sender may be linked already and in its first call.
  Status on_region(Rank from, std::uint32_t index, Offer offer);
  // Keeps a word of `from` for the driver; the progress thread calls it. A word that comes before connect() is over
  // waits until the driver's first round. Returns Mismatch for a word that is too large, one of too many, or one to a
  // link that has none.
  Status on_word(Rank from, Offer word);
  // Says whether words wait for the driver. It costs a load.
  bool has_words() const { return has_words_.load(std::memory_order_acquire); }
  struct Word {
    Rank from;
    Offer offer;
  };
  // Takes the words that have come, in their order. Only the driver calls it.
  std::vector<Word> take_words();
  // Sends a word that the wire to `peer` says. Returns System for a word that the peer would refuse.
  static Status send_word(Members& control, Rank peer, Offer word);
  // Ends a connect() in progress.
  void fail(Error error);

  Link* link(Rank peer) const { return links_[static_cast<std::size_t>(peer)].get(); }
  // Returns the peers whose link has a pump. wire() is null for every other peer.
  const std::vector<Rank>& wired() const { return wired_; }
  // Returns those of them whose ends say words to each other.
  const std::vector<Rank>& speaking() const { return speaking_; }
  Wire* wire(Rank peer) const { return wires_[static_cast<std::size_t>(peer)]; }
  // Returns the other peers. mapped() is null for a peer whose link has a pump.
  const std::vector<Rank>& mapped() const { return mapped_; }
  MappedLink* mapped(Rank peer) const { return wire(peer) == nullptr ? link(peer)->mapped() : nullptr; }
  OwnSegment& segment() const { return *segment_; }
  // Wakes the mapped peers that sleep. The caller calls it after stores that they may wait for.
  void ring() const {
    bool fenced = false;
    for (const auto& [sleeping, link] : sleepers_) {
      if (is_asleep(*sleeping, fenced)) link->wake();
    }
  }
  // Describes a link, for example as "shm", "shm, single copy" or "tcp over eth0 (shm: memfd refused: ...)".
  std::string describe(Rank peer) const;
  // Returns the counts of the transports that link this rank to peers, of those that count.
  std::vector<WireCounts> counts() const;
  // Tells a peer of regions that slots will name.
  Status announce(Members& control, Rank peer);
  // Tells all peers.
  Status announce(Members& control);

 private:
  struct Incoming {
    // Both ends send their messages in the same order.
    std::deque<ControlMessage> messages;
    std::deque<std::pair<std::uint32_t, Offer>> regions;
    std::size_t waiting_words = 0;  // of words_
  };
  static void add_reason(std::string& reasons, std::string_view transport, std::string_view reason) {
    reasons.append(reasons.empty() ? "" : "; ").append(transport).append(": ").append(reason);
  }
  struct Candidate {
    std::string_view name;
    bool needs_stream;
    std::unique_ptr<Transport> transport;
  };
  struct Attempt {
    std::vector<std::size_t> candidates;  // indices of candidates_
    std::size_t at = 0;
    std::unique_ptr<Link> link;
    // The reasons why other transports did not work.
    std::string refused;

    void refuse(std::string_view transport, std::string_view reason) { add_reason(refused, transport, reason); }
  };

  bool speaks(Rank peer) const { return wire(peer) != nullptr && wire(peer)->has_words(); }
  Status make_transports(const TransportContext& context, const CommunicatorOptions& options);
  Status find_candidates(Members& control, Deadline deadline, std::vector<Attempt>& attempts);
  Status run_round(Membership& membership, Members& control, Deadline deadline, std::vector<Attempt>& attempts);
  Result<std::unique_ptr<Link>> try_candidate(Membership& membership, Rank peer, const Attempt& attempt,
                                              Deadline deadline);
  Status others();
  Error own_lack(const Error& error) const;
  // Returns the candidate that the pair tries or has taken.
  const Candidate& candidate(const Attempt& attempt) const { return candidates_[attempt.candidates[attempt.at]]; }
  // Returns the reasons why no transport links the pair.
  std::string reasons(const Attempt& attempt) const;
  Status take_links(std::vector<Attempt>& attempts);
  void share_device(Rank peer, Attempt& attempt);
  bool can_fill_ping_pong() const;
  bool can_copy() const;
  Result<LinkFacts> agree(Members& control, Deadline deadline, bool crowded);
  void settle(Attempt& attempt, Rank peer, const std::string& own, const std::string& theirs);
  Result<ControlMessage> take(Rank from, MessageKind kind, std::uint32_t index, Deadline deadline);

  Endpoint self_{};
  std::vector<Member> members_;
  // The function is empty where peers do not map this rank's device.
  std::function<Status(const EndpointDevice& theirs)> device_reaches_;
  std::size_t streams_ = 1;
  std::unique_ptr<OwnSegment> segment_;
  // The transports that are allowed and can be used here.
  std::vector<Candidate> candidates_;
  // The reasons why other transports cannot be used here.
  std::string unusable_;
  std::vector<std::unique_ptr<Link>> links_;
  // The vector is by rank, with null for links without a pump.
  std::vector<Wire*> wires_;
  std::vector<std::string_view> transports_;  // the names of their rows, by rank
  // A link's description before and after its wire's way, by rank.
  std::vector<std::string> names_;
  std::vector<std::string> more_;
  std::vector<Rank> wired_;
  std::vector<Rank> speaking_;
  std::vector<Rank> mapped_;
  // The mapped peers' counters stand beside their links, so that ring() reads no region.
  std::vector<std::pair<const Counter*, MappedLink*>> sleepers_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Incoming> incoming_;
  std::vector<Word> words_;
  std::atomic<bool> has_words_{false};
  std::optional<Error> failure_;
  Interrupt failed_;  // set with failure_
};

}  // namespace wreath
