// Starts a job: its ranks meet, prove the job's key, and link every pair by a control connection.
#pragma once

#include <cstddef>
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
#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

class Device;
struct EnvironmentJob;

// Describes a rank in the table of all ranks.
struct Member {
  Endpoint endpoint;
  std::int32_t pid = 0;
  std::string host_name;
  std::string library_version;
  // Counts the cores that the ranks of its host may use together.
  std::int32_t host_cores = 1;
};

// Holds what a rank contributes to the table. Settings that must be equal are taken from rank 0.
struct BootstrapRequest {
  int rank;
  int ranks;
  // Holds opaque text; every rank receives rank 0's.
  std::string settings;
  std::int64_t timeout_ms;
  // Says whether open_stream will be used. Where any rank needs it, every rank opens one TCP listener, on the loopback
  // address when all ranks are on one host. Where no rank needs it, no TCP port is opened on that one host.
  bool need_streams = false;
  // Holds a descriptor that ends the start when it becomes readable, or -1. A meeting that this rank has joined, or
  // finds at its first look, then fails for all.
  int interrupt = -1;
  // Is this rank's device.
  EndpointDevice device = {};
};

// Holds the outcome on one rank. control[r] is a connected, authenticated, blocking-mode stream socket to rank r, and
// what seals its messages; it is empty for this rank. The socket is UNIX where both ends are on one host, and TCP
// otherwise. On UNIX connections descriptors can be passed.
struct Membership {
  int rank = 0;
  int ranks = 1;
  // Is random, and equal on all ranks.
  std::uint64_t communicator = 0;
  // Holds rank 0's settings.
  std::string settings;
  std::vector<Member> members;      // one per rank
  std::vector<Connection> control;  // one per rank
  // Points to this rank's device, where there is one; the code that asked for the membership sets it.
  Device* device = nullptr;
  // Opens one more authenticated stream to `peer`, over TCP also between processes of one host. Both ends call it, in
  // ascending order of peers on each rank; the higher rank connects, the lower accepts. One thread calls it at a time.
  // It ends early (NotReady) when `interrupt` (-1 for none) becomes readable. Streams of other numbers prefer other
  // addresses of the peer. It owns the listener: callers reset it when no more streams will be opened.
  std::function<Result<Fd>(Rank peer, Deadline, int interrupt, std::size_t number)> open_stream;
};

// Joins the meeting point that `id` names.
Result<Membership> join(const UniqueId& id, const BootstrapRequest& request);

// Returns whether the meeting point that `id` names answers at once.
bool leads_to_a_meeting(const UniqueId& id);

// Joins the environment's job (docs/formats.md). Rank 0 serves the meeting point in its own process.
Result<Membership> join_environment(const EnvironmentJob& job, const BootstrapRequest& request);

// Makes `ranks` members of this process, linked by socket pairs; no network and no key is needed. `devices` holds all
// ranks' devices, or is empty where they have none.
Result<std::vector<Membership>> join_local(int ranks, const std::string& settings,
                                           std::span<const EndpointDevice> devices = {});

}  // namespace wreath
