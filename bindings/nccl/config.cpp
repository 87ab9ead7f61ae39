// Reads ncclConfig_t, whose layout depends on its version, and checks the range of each field.
#include "bindings/nccl/config.hpp"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>

namespace wreath::nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == 128 && alignof(ncclUniqueId) == 1);
static_assert(sizeof(ncclConfig_t) == 80 && offsetof(ncclConfig_t, magic) == 8 &&
              offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16 && offsetof(ncclConfig_t, cgaClusterSize) == 20);
static_assert(offsetof(ncclConfig_t, minCTAs) == 24 && offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, trafficClass) == 44 && offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, collnetEnable) == 56 && offsetof(ncclConfig_t, CTAPolicy) == 60);
static_assert(offsetof(ncclConfig_t, shrinkShare) == 64 && offsetof(ncclConfig_t, nvlsCTAs) == 68);
static_assert(offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
static_assert(sizeof(ncclSimInfo_t) == 24 && offsetof(ncclSimInfo_t, estimatedTime) == 16);
static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4 && ncclMaxRedOp == 0x7fffffff);
static_assert(NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE);

constexpr unsigned kConfigMagic = 0xcafebeef;

// Holds the bytes of the struct as versions before `version` knew it.
struct Layout {
  unsigned version;
  std::size_t bytes;
};
constexpr Layout kLayouts[] = {{NCCL_VERSION(2, 14, 0), offsetof(ncclConfig_t, blocking)},
                               {NCCL_VERSION(2, 17, 0), offsetof(ncclConfig_t, cgaClusterSize)},
                               {NCCL_VERSION(2, 25, 0), offsetof(ncclConfig_t, trafficClass)},
                               {NCCL_VERSION(2, 27, 0), offsetof(ncclConfig_t, commName)},
                               {NCCL_VERSION(2, 28, 0), offsetof(ncclConfig_t, nChannelsPerNetPeer)}};

struct ValueRange {
  int ncclConfig_t::*field;
  const char* name;
  int least;
  int most;
};
constexpr ValueRange kRanges[] = {
    {&ncclConfig_t::blocking, "blocking", 0, 1},
    {&ncclConfig_t::cgaClusterSize, "cgaClusterSize", 0, 8},
    {&ncclConfig_t::minCTAs, "minCTAs", 1, INT_MAX},
    {&ncclConfig_t::maxCTAs, "maxCTAs", 1, INT_MAX},
    {&ncclConfig_t::splitShare, "splitShare", 0, 1},
    {&ncclConfig_t::trafficClass, "trafficClass", 0, INT_MAX},
    {&ncclConfig_t::collnetEnable, "collnetEnable", 0, 1},
    {&ncclConfig_t::CTAPolicy, "CTAPolicy", 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
    {&ncclConfig_t::shrinkShare, "shrinkShare", 0, 1},
    {&ncclConfig_t::nvlsCTAs, "nvlsCTAs", 1, INT_MAX},
    {&ncclConfig_t::nChannelsPerNetPeer, "nChannelsPerNetPeer", 1, INT_MAX},
    {&ncclConfig_t::nvlinkCentricSched, "nvlinkCentricSched", 0, 1}};

Error invalid_config(std::string text) { return {ErrorCode::InvalidArgument, "config: " + std::move(text), -1}; }

std::size_t known_bytes(const ncclConfig_t& config) {
  std::size_t bytes = sizeof config;
  for (const Layout& before : kLayouts) {
    if (config.version < before.version) bytes = std::min(bytes, before.bytes);
  }
  return std::min(bytes, config.size);
}

Status check_ranges(const ncclConfig_t& config) {
  for (const ValueRange& range : kRanges) {
    const int value = config.*range.field;
    if (value != NCCL_CONFIG_UNDEF_INT && (value < range.least || value > range.most))
      return invalid_config(std::string(range.name) + " = " + std::to_string(value));
  }
  if (config.minCTAs > config.maxCTAs && config.maxCTAs != NCCL_CONFIG_UNDEF_INT)
    return invalid_config("minCTAs = " + std::to_string(config.minCTAs) + " is more than maxCTAs");
  return {};
}

}  // namespace

Result<ProgramConfig> read_config(const ncclConfig_t* config) {
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr) return ProgramConfig{};
  if (config->size < offsetof(ncclConfig_t, blocking)) return invalid_config("size = " + std::to_string(config->size));
  if (config->magic != kConfigMagic) return invalid_config("it does not begin with NCCL_CONFIG_INITIALIZER");
  std::memcpy(&known, config, known_bytes(*config));
  WREATH_TRY(check_ranges(known));
  const std::string network = known.netName == nullptr ? "Socket" : known.netName;
  if (network != "Socket" && network != "socket")
    return Error{ErrorCode::InvalidUsage, "config: netName = " + network + ": hosts are linked by Socket here", -1};
  return ProgramConfig{known.blocking != 0, known.commName == nullptr ? "" : known.commName};
}

}  // namespace wreath::nccl
