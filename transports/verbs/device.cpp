// Opens RDMA adapters: see device.hpp.
#include "transports/verbs/device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "src/base/config.hpp"
#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"
#include "transports/verbs/words.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

Error cannot_open(const ibv_device& device, int error) {
  // The library tells of the last way that it tried.
  const std::string file = fmt::format("/dev/infiniband/{}", device.dev_name);
  if (::access(file.c_str(), R_OK | W_OK) != 0 && errno == EACCES) error = EACCES;
  std::string fix = "look at the kernel's log (dmesg)";
  if (error == EACCES || error == EPERM) fix = "let this user open it: its group is often rdma (usermod -aG rdma ...)";
  if (error == ENOENT || error == ENODEV)
    fix = "as root: modprobe ib_uverbs, or docker run --device=/dev/infiniband ...";
  return {ErrorCode::Unavailable, fmt::format("{}: {}: {}; {}", device.name, file, std::strerror(error), fix)};
}

// Registers as much memory as slots may take, where the limit speaks against it: some users may exceed it.
Status try_to_register(const VerbsDevice& device) {
  const auto bytes = setting_bytes(Setting::BufferBytes);
  if (!bytes) return bytes.error();
  if (lock_complaint(*bytes, lock_limit()).empty()) return {};
  // Nothing writes this memory: each communicator tries, and zeros would take longer than all else.
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(*bytes);
  const auto registered =
      device.register_memory({memory.get(), *bytes}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!registered) return Error{ErrorCode::Unavailable, registered.error().message};
  device.library().dereg_mr(*registered);
  return {};
}

// Opens a device, and adds its ports.
Status add_ports(const VerbsLibrary& library, ibv_device& device, std::vector<ChosenPort>& ports) {
  if (device.transport_type != IBV_TRANSPORT_IB) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{} is no adapter for InfiniBand or RoCE, as this transport needs", device.name)};
  }
  const auto open = VerbsDevice::open(library, device);
  if (!open) return open.error();
  for (int number = 1; number <= (*open)->limits().phys_port_cnt; ++number) {
    auto facts = (*open)->port(number);
    if (!facts) return facts.error();
    ports.push_back({*open, *std::move(facts)});
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<VerbsDevice>> VerbsDevice::open(const VerbsLibrary& library, ibv_device& device) {
  struct OpenDevices {
    std::mutex mutex;
    // A child of a fork opens its own: the kernel refuses what it asks of its parent's.
    std::map<std::pair<pid_t, std::string>, std::weak_ptr<VerbsDevice>> by_process_and_name;
  };
  // It is never destroyed: devices may be closed while the process ends.
  static OpenDevices* const all = new OpenDevices;  // NOLINT(cppcoreguidelines-*): never deleted
  const std::lock_guard lock(all->mutex);
  std::weak_ptr<VerbsDevice>& known = all->by_process_and_name[{::getpid(), device.name}];
  if (auto open = known.lock()) return open;
  ibv_context* const context = library.open_device(&device);
  if (context == nullptr) return cannot_open(device, errno);
  std::shared_ptr<VerbsDevice> made(new VerbsDevice(library, context));
  WREATH_TRY(made->prepare());
  known = made;
  return made;
}

VerbsDevice::VerbsDevice(const VerbsLibrary& library, ibv_context* context)
    : library_(library),
      name_(context->device->name),
      context_(context, library.close_device),
      domain_(nullptr, library.dealloc_pd),
      command_descriptor_(context->cmd_fd),
      event_descriptor_(context->async_fd) {}

Status VerbsDevice::prepare() {
  const auto refuse = [this](const char* call, int error) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: {}: {}", name_, call, std::strerror(error))};
  };
  if (const int error = library_.query_device(context(), &limits_); error != 0)
    return refuse("ibv_query_device", error);
  domain_.reset(library_.alloc_pd(context()));
  if (domain_ == nullptr) return refuse("ibv_alloc_pd", errno);
  if (!event_descriptor_.set_nonblocking()) return refuse("fcntl", errno);
  node_ = read_place(fmt::format("{}/device", context()->device->ibdev_path)).node;
  find_inline_bytes();
  return {};
}

// Asks by trying: some adapters refuse a queue pair whose inline data is too long, and none says how long it may be.
void VerbsDevice::find_inline_bytes() {
  const VerbsHandle<ibv_cq> queue(library_.create_cq(context(), 1, nullptr, nullptr, 0), library_.destroy_cq);
  if (queue == nullptr) return;
  for (const std::uint32_t bytes : {256U, 128U, 96U, 64U}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue.get();
    attributes.cap = {1, 1, 1, 1, bytes};
    attributes.qp_type = IBV_QPT_RC;
    const VerbsHandle<ibv_qp> pair(library_.create_qp(domain(), &attributes), library_.destroy_qp);
    if (pair == nullptr) continue;
    inline_bytes_ = bytes;
    return;
  }
}

Result<PortFacts> VerbsDevice::port(int number) const {
  verbs_context* const extended = verbs_get_ctx_op(context(), query_port);
  if (extended == nullptr) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: its driver is older than rdma-core 17", name_)};
  }
  ibv_port_attr port{};
  const int error = extended->query_port(context(), static_cast<std::uint8_t>(number), &port, sizeof port);
  if (error != 0) {
    return Error{ErrorCode::System, fmt::format("{} port {}: ibv_query_port: {}", name_, number, std::strerror(error))};
  }
  PortFacts facts;
  facts.device = name_;
  facts.number = number;
  facts.state = port_state(port.state);
  facts.infiniband = port.link_layer != IBV_LINK_LAYER_ETHERNET;
  facts.rate_mbit = rate_of(port.active_width, port.active_speed);
  facts.node = node_;
  facts.lid = port.lid;
  facts.mtu = static_cast<std::uint8_t>(port.active_mtu);
  facts.put_bytes = port.max_msg_sz;
  facts.needs_route = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  facts.gids = read_gids(number, port);
  return facts;
}

std::vector<GidEntry> VerbsDevice::read_gids(int number, const ibv_port_attr& port) const {
  std::vector<GidEntry> gids;
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    GidEntry found{index, {}, GidType::Unknown};
    if (library_.query_gid_ex != nullptr) {
      const auto at = static_cast<std::uint32_t>(index);
      if (library_.query_gid_ex(context(), static_cast<std::uint32_t>(number), at, &entry, 0, sizeof entry) != 0)
        continue;
      found.type = gid_type_of(entry.gid_type);
    } else {
      if (library_.query_gid(context(), static_cast<std::uint8_t>(number), index, &entry.gid) != 0) continue;
      found.type = gid_type_of(
          line_of(fmt::format("{}/ports/{}/gid_attrs/types/{}", context()->device->ibdev_path, number, index)));
    }
    std::ranges::copy(entry.gid.raw, found.gid.begin());
    if (found.gid != Gid{}) gids.push_back(found);
  }
  return gids;
}

Result<ibv_mr*> VerbsDevice::register_memory(std::span<std::byte> memory, unsigned access) const {
  const bool extended = (access & IBV_ACCESS_OPTIONAL_RANGE) != 0 && library_.reg_mr_iova2 != nullptr;
  const unsigned plain = access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  ibv_mr* const made = extended ? library_.reg_mr_iova2(domain(), memory.data(), memory.size(),
                                                        reinterpret_cast<std::uintptr_t>(memory.data()), access)
                                : library_.reg_mr(domain(), memory.data(), memory.size(), static_cast<int>(plain));
  if (made != nullptr) return made;
  const int error = errno;
  const std::string locked = lock_complaint(memory.size(), lock_limit());
  const std::string_view fix = error == EFAULT  ? "it is not memory that a process may give to an adapter"
                               : locked.empty() ? "the adapter has no room for it, or does not take such memory"
                                                : std::string_view(locked);
  return Error{ErrorCode::System, fmt::format("{}: {} of memory were not registered: {}; {}", name_,
                                              format_bytes(memory.size()), std::strerror(error), fix)};
}

Result<ibv_mr*> VerbsDevice::register_memory(const DmaBuf& memory, const std::byte* address, unsigned access) const {
  errno = ENOSYS;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto take = library_.reg_dmabuf_mr;
  ibv_mr* const made = take == nullptr ? nullptr
                                       : take(domain(), memory.offset, memory.bytes, first, memory.descriptor.get(),
                                              static_cast<int>(access));
  if (made != nullptr) return made;
  return Error{ErrorCode::Unavailable, fmt::format("{}: ibv_reg_dmabuf_mr: {}", name_, std::strerror(errno))};
}

void VerbsDevice::subscribe(PortNews& news) {
  const std::lock_guard lock(mutex_);
  subscribers_.push_back(&news);
}

void VerbsDevice::unsubscribe(const PortNews& news) {
  const std::lock_guard lock(mutex_);
  std::erase(subscribers_, &news);
}

std::optional<std::string> VerbsDevice::next_sentence(PortNews& news) {
  const std::lock_guard lock(mutex_);
  read_events();
  return news.sentences.next();
}

std::uint32_t VerbsDevice::disturbances(const PortNews& news) {
  const std::lock_guard lock(mutex_);
  read_events();
  return news.disturbances;
}

// A queue pair that is destroyed waits until its events are acknowledged, so they are at once.
void VerbsDevice::read_events() {
  ibv_async_event event{};
  while (library_.get_async_event(context(), &event) == 0) {
    sort_out(event);
    library_.ack_async_event(&event);
  }
}

void VerbsDevice::sort_out(const ibv_async_event& event) {
  const EventWords words = event_words(event.event_type);
  const void* owner = nullptr;
  std::string subject;
  if (words.scope == EventScope::QueuePair) {
    owner = event.element.qp->qp_context;
    subject = fmt::format("queue pair {}: ", event.element.qp->qp_num);
  }
  if (words.scope == EventScope::Queue) owner = event.element.cq->cq_context;
  for (PortNews* const news : subscribers_) {
    const bool concerned = owner != nullptr
                               ? news == owner
                               : words.scope == EventScope::Device ||
                                     (words.scope == EventScope::Port && news->port == event.element.port_num);
    if (!concerned) continue;
    news->disturbances += words.disturbs ? 1 : 0;
    news->sentences.add(fmt::format("{} port {}: {}{}", name_, news->port, subject, words.text));
  }
}

Result<std::vector<ChosenPort>> find_ports(const VerbsSettings& settings, int rank) {
  const auto library = VerbsLibrary::get();
  if (!library) return library.error();
  const std::unique_ptr<ibv_device*[], void (*)(ibv_device**)> list((*library)->get_device_list(nullptr),
                                                                    (*library)->free_device_list);
  if (list == nullptr || list[0] == nullptr) {
    return Error{ErrorCode::Unavailable,
                 "this machine has no RDMA adapter that libibverbs sees; `wreath doctor` shows what the kernel has"};
  }
  std::vector<ChosenPort> ports;
  std::string reasons;
  for (std::size_t i = 0; list[i] != nullptr; ++i) {
    const Status added = add_ports(**library, *list[i], ports);
    if (!added) reasons += "; " + added.error().message;
  }
  if (ports.empty())
    return Error{ErrorCode::Unavailable, reasons.empty() ? "no RDMA adapter has a port" : reasons.substr(2)};
  std::vector<PortFacts> facts;
  for (const ChosenPort& port : ports) facts.push_back(port.facts);
  const auto chosen = choose_ports(facts, settings.adapters, nodes_to_be_near(facts), rank, settings.rails);
  if (!chosen) return Error{chosen.error().code, chosen.error().message + reasons};
  std::vector<ChosenPort> found;
  for (const std::size_t each : *chosen) {
    WREATH_TRY(try_to_register(*ports[each].device));
    found.push_back(std::move(ports[each]));
  }
  return found;
}

}  // namespace wreath
