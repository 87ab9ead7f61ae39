// Estimates times: of collectives by the tuner's own prediction, of messages by the links of its flat model.
#include "bindings/nccl/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "bindings/nccl/errors.hpp"
#include "wreath/plan.hpp"
#include "wreath/tuning.hpp"

namespace wreath::nccl {
namespace {

constexpr unsigned kSimulationMagic = 0x74685283;

bool moves_blocks(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce: return false;
    default: return true;
  }
}

double message_us(std::size_t bytes) {
  const FlatModel model;
  return model.latency_us + static_cast<double>(bytes) / (model.bandwidth_gb_s * 1e3);
}

double time_us(const Request& request) {
  const Call& call = request.call;
  const std::size_t bytes = call.count * size_of(call.dtype);
  if (request.kind != Request::Kind::Collective) return message_us(bytes);
  const int ranks = request.member->ranks();
  if (ranks <= 1 || bytes == 0) return 0;
  PlanQuestion question;
  question.collective = call.collective;
  question.bytes = moves_blocks(call.collective) ? bytes * static_cast<std::size_t>(ranks) : bytes;
  question.ranks = ranks;
  const auto plan = explain_plan(question, nullptr);
  return plan ? plan->chosen.predicted_us.value_or(message_us(bytes)) : message_us(bytes);
}

}  // namespace

ncclResult_t estimate(const std::vector<Request>& requests, ncclSimInfo_t* info) {
  constexpr const char* kName = "ncclGroupSimulateEnd";
  constexpr std::size_t kEnd = offsetof(ncclSimInfo_t, estimatedTime) + sizeof info->estimatedTime;
  if (info == nullptr) return bad_argument(kName, "simInfo = null");
  if (info->magic != kSimulationMagic)
    return bad_argument(kName, "simInfo does not begin with NCCL_SIM_INFO_INITIALIZER");
  if (info->size < kEnd) return bad_argument(kName, "simInfo.size = " + std::to_string(info->size));
  std::map<const Member*, double> of_member;
  for (const Request& request : requests) of_member[request.member.get()] += time_us(request);
  double longest = 0;
  for (const auto& [member, time] : of_member) longest = std::max(longest, time);
  info->estimatedTime = static_cast<float>(longest);
  return ncclSuccess;
}

}  // namespace wreath::nccl
