// Implements devices, ports, addresses, domains and events of the fake libibverbs.so.1.
#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_verbs/network.hpp"

#undef ibv_query_port

namespace wreath::test {

Network& network() {
  static Network* const one = new Network;  // the adapter's thread may outlive static objects
  return *one;
}

int asked_for(const char* function) {
  const auto found = network().failures.find(function);
  if (found == network().failures.end()) return 0;
  AskedFailure& asked = found->second;
  if (asked.after > 0) return --asked.after, 0;
  if (asked.times <= 0) return 0;
  --asked.times;
  return errno = asked.error;
}

void make_devices() {
  Network& all = network();
  all.devices.clear();
  for (int i = 0; i < all.made.adapters; ++i) {
    auto device = std::make_unique<FakeDevice>();
    device->index = i;
    device->node_type = IBV_NODE_CA;
    device->transport_type = IBV_TRANSPORT_IB;
    std::snprintf(device->name, sizeof device->name, "%s", all.made.adapter[i].name);
    std::snprintf(device->dev_name, sizeof device->dev_name, "uverbs%d", i);
    std::snprintf(device->dev_path, sizeof device->dev_path, "%s/class/infiniband_verbs/uverbs%d", all.made.sysfs, i);
    std::snprintf(device->ibdev_path, sizeof device->ibdev_path, "%s/class/infiniband/%s", all.made.sysfs,
                  device->name);
    all.devices.push_back(std::move(device));
  }
}

FakePort& port_of(const FakeDevice& device, int port) { return network().made.adapter[device.index].port[port - 1]; }

std::uint16_t lid_of(const FakeDevice& device, int port) {
  return port_of(device, port).infiniband ? static_cast<std::uint16_t>(0x21 + 2 * device.index + port) : 0;
}

// An InfiniBand port has one address. An Ethernet port has its link-local and its IPv4 address, each as RoCE v1 and v2.
bool gid_at(const FakeDevice& device, int port, int index, ibv_gid_entry* entry) {
  const FakePort& its = port_of(device, port);
  if (index < 0 || index >= (its.infiniband ? 1 : 4)) return false;
  *entry = {};
  entry->gid_index = static_cast<std::uint32_t>(index);
  entry->port_num = static_cast<std::uint32_t>(port);
  entry->gid_type = its.infiniband ? IBV_GID_TYPE_IB : index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  if (index < 2) {
    entry->gid.global.subnet_prefix = htobe64(0xfe80'0000'0000'0000);
    entry->gid.global.interface_id =
        htobe64(network().made.adapter[device.index].guid + static_cast<std::uint64_t>(port) * 0x100);
  } else {
    const std::uint8_t address[16] = {0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0xff,
                                      0xff,
                                      10,
                                      77,
                                      static_cast<std::uint8_t>(device.index),
                                      static_cast<std::uint8_t>(port)};
    std::memcpy(entry->gid.raw, address, sizeof address);
  }
  return true;
}

FakeDevice* find_device(const ibv_ah_attr& address, int* port) {
  for (const std::unique_ptr<FakeDevice>& device : network().devices) {
    for (*port = 1; *port <= network().made.adapter[device->index].ports; ++*port) {
      if (address.is_global == 0 && address.dlid == lid_of(*device, *port)) return device.get();
      ibv_gid_entry entry{};
      for (int index = 0; address.is_global != 0 && gid_at(*device, *port, index, &entry); ++index) {
        if (std::memcmp(&entry.gid, &address.grh.dgid, sizeof entry.gid) == 0) return device.get();
      }
    }
  }
  return nullptr;
}

void raise(Context& context, const ibv_async_event& event) {
  context.events.waiting.push_back(event);
  ::eventfd_write(context.events.descriptor, 1);
}

void raise(QueuePair& pair, ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = &pair;
  event.event_type = type;
  raise(*static_cast<Context*>(verbs_get_ctx(pair.context)), event);
}

}  // namespace wreath::test

using namespace wreath::test;

namespace {

Context& context_of(ibv_context* context) { return *static_cast<Context*>(verbs_get_ctx(context)); }

bool has_port(const Context& context, unsigned port) {
  return port >= 1 && port <= static_cast<unsigned>(network().made.adapter[context.device->index].ports);
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t size) {
  const Hold hold;
  if (const int error = asked_for("ibv_query_port"); error != 0) return error;
  const Context& of = context_of(context);
  if (!has_port(of, port)) return EINVAL;
  const FakePort& its = port_of(*of.device, port);
  ibv_port_attr all{};
  all.state = its.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  all.max_mtu = IBV_MTU_4096;
  all.active_mtu = static_cast<ibv_mtu>(its.mtu);
  all.gid_tbl_len = its.infiniband ? 8 : 256;  // most entries are empty
  all.max_msg_sz = network().made.max_message;
  all.pkey_tbl_len = 1;
  all.lid = lid_of(*of.device, port);
  all.sm_lid = its.infiniband ? 1 : 0;
  all.active_width = static_cast<std::uint8_t>(its.width);
  all.active_speed = static_cast<std::uint8_t>(its.speed);
  all.phys_state = its.active ? 5 : 3;
  all.link_layer = its.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attributes, &all, std::min(size, sizeof all));
  return 0;
}

// A table has empty entries after its end.
int read_gid(ibv_context* context, unsigned port, unsigned index, ibv_gid_entry* entry) {
  const Context& of = context_of(context);
  if (!has_port(of, port) || index >= 256) return EINVAL;
  return gid_at(*of.device, static_cast<int>(port), static_cast<int>(index), entry) ? 0 : ENODATA;
}

}  // namespace

namespace wreath::test {

int poll_queue(ibv_cq* queue, int most, ibv_wc* completions);
int arm_queue(ibv_cq* queue, int only_solicited);
int post_sends(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** bad);
int post_receives(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** bad);
int post_shared_receives(ibv_srq* queue, ibv_recv_wr* requests, ibv_recv_wr** bad);

}  // namespace wreath::test

extern "C" {

// ---- devices ----

ibv_device** ibv_get_device_list(int* count) {
  const Hold hold;
  if (asked_for("ibv_get_device_list") != 0) return nullptr;
  if (network().devices.empty()) make_devices();
  const std::size_t devices = network().devices.size();
  auto** const list = new ibv_device*[devices + 1]();
  for (std::size_t i = 0; i < devices; ++i) list[i] = network().devices[i].get();
  if (count != nullptr) *count = static_cast<int>(devices);
  return list;
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
int ibv_get_device_index(ibv_device* device) { return static_cast<FakeDevice*>(device)->index; }
__be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(network().made.adapter[static_cast<FakeDevice*>(device)->index].guid);
}
int ibv_fork_init() { return 0; }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

ibv_context* ibv_open_device(ibv_device* device) {
  const Hold hold;
  if (asked_for("ibv_open_device") != 0) return nullptr;
  auto* const made = new Context();
  made->sz = sizeof(verbs_context);
  made->query_port = &query_port;
  made->device = static_cast<FakeDevice*>(device);
  made->events.descriptor = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  ibv_context& base = made->context;
  base.device = device;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.async_fd = made->events.descriptor;
  base.cmd_fd = -1;
  base.num_comp_vectors = 1;
  base.ops.poll_cq = &poll_queue;
  base.ops.req_notify_cq = &arm_queue;
  base.ops.post_send = &post_sends;
  base.ops.post_recv = &post_receives;
  base.ops.post_srq_recv = &post_shared_receives;
  network().contexts.insert(made);
  ++network().counters.alive;
  start_adapter();
  return &base;
}

int ibv_close_device(ibv_context* context) {
  const Hold hold;
  Context* const closed = &context_of(context);
  network().contexts.erase(closed);
  ::close(closed->events.descriptor);
  --network().counters.alive;
  delete closed;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const Hold hold;
  if (const int error = asked_for("ibv_query_device"); error != 0) return error;
  const FakeNetwork& made = network().made;
  const int index = context_of(context).device->index;
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof attributes->fw_ver, "0.0.1");
  attributes->node_guid = attributes->sys_image_guid = htobe64(made.adapter[index].guid);
  attributes->max_mr_size = std::uint64_t{1} << 40;
  attributes->page_size_cap = 4096;
  attributes->max_qp = 65'536;
  attributes->max_qp_wr = made.max_requests;
  attributes->max_sge = made.max_pieces;
  attributes->max_cq = 65'536;
  attributes->max_cqe = made.max_entries;
  attributes->max_mr = made.max_regions;
  attributes->max_pd = 65'536;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  attributes->max_srq = 65'536;
  attributes->max_srq_wr = made.max_requests;
  attributes->max_srq_sge = made.max_pieces;
  attributes->max_pkeys = 1;
  attributes->local_ca_ack_delay = 15;
  attributes->phys_port_cnt = static_cast<std::uint8_t>(made.adapter[index].ports);
  return 0;
}

// Old programs give less room: all but the last field.
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  const Hold hold;
  if (asked_for("ibv_query_gid") != 0) return -1;
  ibv_gid_entry entry{};
  const int error = read_gid(context, port, static_cast<unsigned>(index), &entry);
  if (error == EINVAL) return errno = error, -1;
  *gid = entry.gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                      std::uint32_t flags, std::size_t size) {
  const Hold hold;
  if (const int error = asked_for("ibv_query_gid_ex"); error != 0) return error;
  if (flags != 0 || size < sizeof *entry) return EOPNOTSUPP;
  return read_gid(context, port, index, entry);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t size) {
  const Hold hold;
  if (const int error = asked_for("ibv_query_gid_table"); error != 0) return -error;
  if (flags != 0 || size < sizeof *entries) return -EOPNOTSUPP;
  std::size_t found = 0;
  for (unsigned port = 1; has_port(context_of(context), port); ++port) {
    for (unsigned index = 0; found < most && read_gid(context, port, index, &entries[found]) == 0; ++index) ++found;
  }
  return static_cast<ssize_t>(found);
}

int ibv_query_pkey(ibv_context*, std::uint8_t, int index, __be16* key) {
  if (index != 0) return errno = EINVAL, -1;
  *key = htobe16(0xffff);
  return 0;
}

// ---- domains ----

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const Hold hold;
  if (asked_for("ibv_alloc_pd") != 0) return nullptr;
  auto* const made = new Domain();
  made->context = context;
  ++network().counters.alive;
  return made;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  const Hold hold;
  if (static_cast<Domain*>(domain)->users != 0) return EBUSY;
  delete static_cast<Domain*>(domain);
  --network().counters.alive;
  return 0;
}

// ---- asynchronous events ----

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Context& of = context_of(context);
  eventfd_t one = 0;
  if (::eventfd_read(of.events.descriptor, &one) != 0) return -1;
  const Hold hold;
  if (of.events.waiting.empty()) return errno = EAGAIN, -1;  // its object was destroyed meanwhile
  *event = of.events.waiting.front();
  of.events.waiting.pop_front();
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    ++static_cast<CompletionQueue*>(event->element.cq)->unacknowledged;
  } else if (event->event_type != IBV_EVENT_PORT_ERR && event->event_type != IBV_EVENT_PORT_ACTIVE) {
    ++static_cast<QueuePair*>(event->element.qp)->unacknowledged;
  }
  return 0;
}
void ibv_ack_async_event(ibv_async_event* event) {
  const Hold hold;
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    --static_cast<CompletionQueue*>(event->element.cq)->unacknowledged;
  } else if (event->event_type != IBV_EVENT_PORT_ERR && event->event_type != IBV_EVENT_PORT_ACTIVE) {
    --static_cast<QueuePair*>(event->element.qp)->unacknowledged;
  }
}

// ---- words ----

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_LEN_ERR: return "local length error";
    case IBV_WC_LOC_QP_OP_ERR: return "local QP operation error";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_REM_OP_ERR: return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR retry counter exceeded";
    default: return "general error";
  }
}
const char* ibv_event_type_str(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR: return "CQ error";
    case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
    case IBV_EVENT_QP_ACCESS_ERR: return "local access violation work queue error";
    case IBV_EVENT_PORT_ACTIVE: return "port active";
    case IBV_EVENT_PORT_ERR: return "port error";
    case IBV_EVENT_QP_LAST_WQE_REACHED: return "last WQE reached";
    default: return "unknown event";
  }
}
const char* ibv_port_state_str(ibv_port_state state) {
  return state == IBV_PORT_ACTIVE ? "PORT_ACTIVE" : state == IBV_PORT_DOWN ? "PORT_DOWN" : "PORT_NOP";
}

}  // extern "C"
