// Shows a machine as a tree of lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/topo/outline.hpp"
#include "tools/topo/parts.hpp"
#include "tools/topo/show.hpp"

namespace wreath {
namespace {

Branch branch_of(const Topology& topology, const CoreGroup& group) {
  const std::vector<int> threads = group.threads();
  std::vector<int> allowed;
  for (const int thread : threads) {
    if (is_allowed(topology, thread)) allowed.push_back(thread);
  }
  std::string text =
      fmt::format("{} {} {}", group.cores.size(), group.cores.size() == 1 ? "core:" : "cores:", format_list(threads));
  if (allowed.empty()) text += ", none allowed to this process";
  if (!allowed.empty() && allowed.size() < threads.size()) text += ", allowed: " + format_list(allowed);
  if (const std::string near = near_caches_text(topology, group); !near.empty()) text += "; " + near;
  return {group.cache == nullptr ? "cores" : cache_text(*group.cache), text};
}

std::vector<Branch> branches_near(const std::vector<DeviceLine>& devices, int node) {
  std::vector<Branch> branches;
  for (const DeviceLine& device : devices) {
    if (device.node == node) branches.push_back({device.name, device.text});
  }
  return branches;
}

Branch branch_of(const Topology& topology, const NodePart& node, const std::vector<DeviceLine>& devices) {
  Branch branch{fmt::format("NUMA node {}", node.number), ""};
  if (node.node != nullptr) {
    branch.text = fmt::format("{}, {} free", size_text(node.node->bytes), size_text(node.node->free_bytes));
  }
  for (const CoreGroup& group : node.groups) branch.branches.push_back(branch_of(topology, group));
  for (Branch& device : branches_near(devices, node.number)) branch.branches.push_back(std::move(device));
  return branch;
}

}  // namespace

std::string topology_tree(const Topology& topology, bool lines) {
  std::vector<std::string> hidden;
  const std::vector<DeviceLine> devices = devices_of(topology, &hidden);
  std::vector<Branch> roots;
  for (const PackagePart& package : packages_of(topology)) {
    Branch& root = roots.emplace_back();
    root.label = package.number < 0 ? "memory without cores" : fmt::format("package {}", package.number);
    for (const NodePart& node : package.nodes) root.branches.push_back(branch_of(topology, node, devices));
  }
  std::vector<Branch> elsewhere = branches_near(devices, -1);
  if (!elsewhere.empty()) roots.push_back({"near no NUMA node", "", std::move(elsewhere)});
  std::string text =
      fmt::format("machine  {}, {}\n         {}\nprocess  {}\n\n", topology.host.empty() ? "no name" : topology.host,
                  model_text(topology), machine_text(topology), process_text(topology));
  text += outline(roots, lines);
  if (!hidden.empty()) text += fmt::format("\nnot shown, virtual and without an address: {}\n", fmt::join(hidden, " "));
  for (const std::string& sentence : topology.unknown) text += fmt::format("\nnot known: {}\n", sentence);
  return text;
}

std::string model_text(const Topology& topology) {
  std::string text = topology.processor.empty() ? "a processor that does not say its name" : topology.processor;
  if (!topology.kernel.empty()) text += ", Linux " + topology.kernel;
  if (topology.hypervisor == "yes") return text + ", a virtual machine";
  return topology.hypervisor.empty() ? text : text + ", a virtual machine of " + topology.hypervisor;
}

}  // namespace wreath
