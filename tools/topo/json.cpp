// Writes a machine as JSON; docs/formats.md explains the keys.
#include "tools/topo/show.hpp"

namespace wreath {
namespace {

const char* name(CacheKind kind) {
  return kind == CacheKind::Data ? "data" : kind == CacheKind::Instruction ? "instruction" : "unified";
}

Json json_of(const PciPlace& place) {
  if (place.address.empty()) return nullptr;
  return {{"address", place.address}, {"bridges", place.bridges}, {"node", place.node}, {"link", place.link}};
}

Json json_of(const Processor& processor) {
  return {
      {"number", processor.number}, {"core", processor.core}, {"package", processor.package}, {"node", processor.node}};
}

Json json_of(const Cache& cache) {
  return {{"level", cache.level}, {"kind", name(cache.kind)}, {"bytes", cache.bytes}, {"processors", cache.processors}};
}

Json json_of(const NumaNode& node) {
  return {
      {"number", node.number}, {"bytes", node.bytes}, {"free_bytes", node.free_bytes}, {"processors", node.processors}};
}

Json json_of(const Gpu& gpu) {
  return {{"name", gpu.name},
          {"driver", gpu.driver},
          {"bytes", gpu.bytes},
          {"uuid", gpu.uuid},
          {"pci", json_of(gpu.place)}};
}

Json json_of(const GpuLink& link) {
  return {{"first", link.first},       {"second", link.second},
          {"nvlinks", link.nvlinks},   {"nvlink_version", link.nvlink_version},
          {"nvswitch", link.nvswitch}, {"pci", name(link.pci)},
          {"text", link_text(link)}};
}

Json json_of(const NetworkInterface& interface) {
  return {{"name", interface.name},
          {"kind", interface.kind},
          {"state", interface.state},
          {"mtu", interface.mtu},
          {"speed_mbit", interface.speed_mbit},
          {"driver", interface.driver},
          {"addresses", interface.addresses},
          {"pci", json_of(interface.place)}};
}

Json json_of(const RdmaGid& gid) {
  return {{"index", gid.index}, {"address", gid.address}, {"type", gid.type}, {"interface", gid.interface}};
}

Json json_of(const RdmaPort& port);
Json json_of(const RdmaDevice& device);

template <typename Part>
Json list_of(const std::vector<Part>& parts) {
  Json list = Json::array();
  for (const Part& part : parts) list.push_back(json_of(part));
  return list;
}

Json json_of(const RdmaPort& port) {
  return {{"number", port.number},
          {"state", port.state},
          {"link_layer", port.link_layer},
          {"rate", port.rate},
          {"gids", list_of(port.gids)}};
}

Json json_of(const RdmaDevice& device) {
  return {{"name", device.name},
          {"ports", list_of(device.ports)},
          {"interfaces", device.interfaces},
          {"driver", device.driver},
          {"pci", json_of(device.place)}};
}

}  // namespace

Json topology_json(const Topology& topology) {
  return {{"host", topology.host},
          {"kernel", topology.kernel},
          {"processor", topology.processor},
          {"hypervisor", topology.hypervisor},
          {"processors", list_of(topology.processors)},
          {"caches", list_of(topology.caches)},
          {"nodes", list_of(topology.nodes)},
          {"gpus", list_of(topology.gpus)},
          {"gpu_links", list_of(topology.gpu_links)},
          {"interfaces", list_of(topology.interfaces)},
          {"rdma", list_of(topology.rdma)},
          {"allowed", topology.allowed},
          {"usable_cores", topology.usable_cores},
          {"available_bytes", topology.available_bytes},
          {"unknown", topology.unknown}};
}

}  // namespace wreath
