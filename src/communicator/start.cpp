// Starting engines, and children of engines.
#include "src/communicator/start.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/communicator/device_runs.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/own_device.hpp"

namespace wreath {

BootstrapRequest request_of(int rank, int ranks, const AgreedOptions& options, const Device* device) {
  BootstrapRequest request{};
  request.rank = rank;
  request.ranks = ranks;
  request.settings = encode_options(options);
  request.timeout_ms = options.timeouts.bootstrap_ms;
  request.device = identity_of(device);
  request.need_streams = options.transports.empty() || std::find(options.transports.begin(), options.transports.end(),
                                                                 "tcp") != options.transports.end();
  return request;
}

Result<std::shared_ptr<Engine>> make_engine(Membership membership, std::uint16_t epoch) {
  const auto options = decode_options(membership.settings);
  if (!options) return options.error();
  return Engine::create(std::move(membership), *options, epoch, &add_device_runs);
}

Result<UniqueId> make_meeting(const Engine& parent, const std::vector<Rank>& members) {
  const std::vector<Member>& known = parent.members();
  const auto host_of = [&](Rank rank) { return known[static_cast<std::size_t>(rank)].endpoint.host; };
  const auto elsewhere =
      std::find_if(members.begin(), members.end(), [&](Rank rank) { return host_of(rank) != host_of(parent.rank()); });
  return UniqueId::create(elsewhere == members.end() ? std::string() : parent.control().own_address(*elsewhere));
}

Result<std::shared_ptr<Engine>> join_child(const Engine& parent, const std::vector<Rank>& members, const UniqueId& id,
                                           const Interrupt& interrupt) {
  const auto self = std::find(members.begin(), members.end(), parent.rank());
  BootstrapRequest request = request_of(static_cast<int>(self - members.begin()), static_cast<int>(members.size()),
                                        parent.options(), parent.device());
  request.interrupt = interrupt.descriptor();
  auto membership = join(id, request);
  if (!membership) return error_of_child(membership.error(), members);
  membership->device = parent.device();
  auto engine = make_engine(std::move(*membership), static_cast<std::uint16_t>(parent.shape().epoch + 1));
  if (!engine) return error_of_child(engine.error(), members);
  return engine;
}

Error error_of_child(const Error& error, const std::vector<Rank>& members) {
  const bool named = error.failed_rank >= 0 && static_cast<std::size_t>(error.failed_rank) < members.size();
  return {error.code, fmt::format("the new communicator of {} ranks: {}", members.size(), error.message),
          named ? members[static_cast<std::size_t>(error.failed_rank)] : -1};
}

}  // namespace wreath
