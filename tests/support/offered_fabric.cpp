// Says what libfabric offers, for the stand-in (shuffled_fabric.cpp), which keeps no order. With
// SHUFFLED_FABRIC_ADAPTERS=N the first adapter of the provider is offered N times, as fake_0, fake_1 and so on.
#include <rdma/fabric.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "tests/support/device_fabric.hpp"
#include "tests/support/named_adapter.hpp"
#include "tests/support/real_fabric.hpp"

namespace wreath::test {
namespace {

struct OfferedAdapter {
  std::mutex mutex;
  std::string name;
};

OfferedAdapter& offered() {
  static OfferedAdapter* const one = new OfferedAdapter;  // NOLINT(cppcoreguidelines-owning-memory): never deleted
  return *one;
}

// Offers the adapter of the loopback, or else the first one, so many times.
void offer_several(fi_info** info, int adapters) {
  fi_info* const all = *info;
  const fi_info* taken = all;
  for (const fi_info* each = all; each != nullptr; each = each->next) {
    if (std::strcmp(each->domain_attr->name, "lo") == 0 && taken->domain_attr->name != std::string_view("lo"))
      taken = each;
  }
  {
    const std::lock_guard lock(offered().mutex);
    if (offered().name.empty()) offered().name = taken->domain_attr->name;
  }
  for (int i = 0; i < adapters; ++i) {
    fi_info* const copy = real(&fi_dupinfo, "fi_dupinfo")(taken);
    const std::string name = "fake_" + std::to_string(i);
    std::free(copy->domain_attr->name);
    copy->domain_attr->name = ::strdup(name.c_str());
    copy->nic = named_adapter(name.c_str());
    *info = copy;
    info = &copy->next;
  }
  real(&fi_freeinfo, "fi_freeinfo")(all);
}

}  // namespace

char* offered_adapter() {
  const std::lock_guard lock(offered().mutex);
  return offered().name.empty() ? nullptr : offered().name.data();
}

}  // namespace wreath::test

using wreath::test::real;

extern "C" {

std::uint32_t fi_version() { return wreath::test::version_of(real(&fi_version, "fi_version")()); }

int fi_getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
               fi_info** info) {
  const std::uint32_t known = std::min(version, real(&fi_version, "fi_version")());
  fi_info* const asked = real(&fi_dupinfo, "fi_dupinfo")(hints);
  wreath::test::DeviceQuestion devices(version);
  devices.hide(asked);
  const int returned = real(&fi_getinfo, "fi_getinfo")(known, node, service, flags, asked, info);
  real(&fi_freeinfo, "fi_freeinfo")(asked);
  if (returned == 0) devices.add_to(*info);
  for (fi_info* each = returned == 0 ? *info : nullptr; each != nullptr; each = each->next) {
    each->tx_attr->msg_order = each->rx_attr->msg_order = FI_ORDER_NONE;
  }
  const char* const adapters = std::getenv("SHUFFLED_FABRIC_ADAPTERS");
  if (returned == 0 && adapters != nullptr) wreath::test::offer_several(info, std::atoi(adapters));
  return returned;
}

void fi_freeinfo(fi_info* info) { real(&fi_freeinfo, "fi_freeinfo")(info); }

fi_info* fi_dupinfo(const fi_info* info) { return real(&fi_dupinfo, "fi_dupinfo")(info); }

const char* fi_strerror(int error) { return real(&fi_strerror, "fi_strerror")(error); }

}  // extern "C"
