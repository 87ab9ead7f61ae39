// Bringing ranks together: meet, prove the job's key, link every pair by a control connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/bootstrap/seal.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

class Device;

// A rank as the table of all ranks describes it.
struct Member {
  Endpoint endpoint;
  std::int32_t pid = 0;
  std::string host_name;
  std::string library_version;
};

// What a rank contributes to the table: settings that must be equal are taken from rank 0.
struct BootstrapRequest {
  int rank;
  int ranks;
  std::string settings;  // opaque text; every rank receives rank 0's
  std::int64_t timeout_ms;
  // Whether open_stream will be used. Any rank's wish opens one TCP listener on every rank: on the
  // loopback address when all ranks are on one host. Without it no TCP port is opened there.
  bool need_streams = false;
  // A descriptor that ends the start when it becomes readable; -1: none. A meeting that this rank has come to, or finds
  // at its first look, then fails for all.
  int interrupt = -1;
  EndpointDevice device = {};  // of this rank
};

// The outcome on one rank. control[r] is a connected, authenticated, blocking-mode stream socket to rank r (UNIX where
// both ends are on one host, TCP otherwise), and what seals its messages; empty for self. On UNIX connections
// descriptors can be passed.
struct Membership {
  int rank = 0;
  int ranks = 1;
  std::uint64_t communicator = 0;   // random, equal on all ranks
  std::string settings;             // rank 0's
  std::vector<Member> members;      // one per rank
  std::vector<Connection> control;  // one per rank
  Device* device = nullptr;         // this rank's, where there is one: set by who asked for the membership
  // Opens one more authenticated stream to `peer` (both ends call it, in ascending order of peers
  // on each rank; the higher rank connects, the lower accepts). TCP also between processes of one host.
  // One thread at a time; ends early (NotReady) when `interrupt` (or -1) becomes readable. It owns the listener: reset
  // it when no more streams will be opened.
  std::function<Result<Fd>(Rank peer, Deadline, int interrupt)> open_stream;
};

// Serves and joins the meeting point that `id` names.
Result<Membership> join(const UniqueId& id, const BootstrapRequest& request);

// Whether the meeting point that `id` names answers at once.
bool leads_to_a_meeting(const UniqueId& id);

// The environment's job (docs/formats.md). Rank 0 serves the meeting point in its own process.
Result<Membership> join_environment(const EnvironmentJob& job, const BootstrapRequest& request);

// `ranks` members of this process, linked by socket pairs; no network, no key needed. `devices` of all ranks, or empty:
// they have none.
Result<std::vector<Membership>> join_local(int ranks, const std::string& settings,
                                           std::span<const EndpointDevice> devices = {});

}  // namespace wreath
