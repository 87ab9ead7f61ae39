// Draws a machine as a picture. Packages hold NUMA nodes, and nodes hold their caches with cores and the devices near
// them.
#include "src/page/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/topo/parts.hpp"
#include "tools/topo/show.hpp"

namespace wreath {
namespace {

constexpr double kWidth = 1120;
constexpr double kMargin = 32;
constexpr double kPad = 16;
constexpr double kGap = 14;
constexpr double kHead = 34;  // of a frame, for its title
constexpr double kCellWidth = 46;
constexpr double kCellHeight = 32;
constexpr double kCellGap = 6;
constexpr double kDeviceHeight = 28;
constexpr int kColours = 8;

constexpr std::string_view kStyle = R"(
.package { fill: #f3f1ec; stroke: var(--rule); } .node { fill: var(--card); stroke: var(--rule); }
.group { fill: #f7f8fa; stroke: var(--rule); } .title { font-size: 22px; } .cell { fill: #dfeaf9; stroke: #a9c5ec; }
.forbidden { fill: #eceae6; stroke: #d8d5cf; } .number, .tag { font-size: 12px; } .device { fill: var(--card); }
.rank { font-size: 10px; fill: var(--soft); } .device { stroke: var(--rule); } .gpu { fill: #1a8f6a; }
.off { stroke-dasharray: 4 3; fill: #f4f3f0; } .rdma { fill: #6d4bc3; } .interface { fill: #2463c4; }
svg .tag { fill: #ffffff; font-weight: 600; font-size: 11px; }
.c0 { fill: var(--f0); stroke: var(--c0); } .c1 { fill: var(--f1); stroke: var(--c1); }
.c2 { fill: var(--f2); stroke: var(--c2); } .c3 { fill: var(--f3); stroke: var(--c3); }
.c4 { fill: var(--f4); stroke: var(--c4); } .c5 { fill: var(--f5); stroke: var(--c5); }
.c6 { fill: var(--f6); stroke: var(--c6); } .c7 { fill: var(--f7); stroke: var(--c7); }
@media (prefers-color-scheme: dark) {
  .package { fill: #1a1e25; } .group { fill: #191d24; } .off { fill: #1a1e25; }
  .cell { fill: #2a323e; stroke: #46536a; } .forbidden { fill: #2a2e35; stroke: #3a3f48; } }
)";

struct Drawn {
  std::string svg;
  double height = 0;
};

std::string colour(int number) { return fmt::format("c{}", number % kColours); }

// Draws a frame around its content.
Drawn framed(Box box, std::string_view classes, const std::string& head, const std::string& soft, const Drawn& inner) {
  box.height = kHead + inner.height + kPad;
  return {svg_rectangle(box, 12, classes) + svg_pair(box.x + kPad, box.y + 23, head, soft, box.width - 2 * kPad) +
              inner.svg,
          box.height};
}

// Draws `count` things of equal width in rows of `columns`. Each row is as high as its highest thing.
template <typename Draw>
Drawn in_columns(const Box& box, std::size_t count, std::size_t columns, Draw draw) {
  const auto wide = static_cast<double>(columns);
  const double width = (box.width - kGap * (wide - 1)) / wide;
  Drawn all;
  double row = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto column = static_cast<double>(i % columns);
    if (column == 0 && i > 0) all.height += std::exchange(row, 0) + kGap;
    const Drawn one = draw(i, Box{box.x + column * (width + kGap), box.y + all.height, width, 0});
    all.svg += one.svg;
    row = std::max(row, one.height);
  }
  all.height += row;
  return all;
}

class Picture {
 public:
  Picture(const Topology& topology, const RanksShown& ranks)
      : topology_(topology),
        ranks_(ranks),
        packages_(packages_of(topology)),
        devices_(devices_of(topology, &hidden_)) {}

  std::string draw() {
    Drawn all = head();
    const auto below = [&](const Drawn& drawn) {
      all.svg += drawn.svg;
      all.height += drawn.height + (drawn.height > 0 ? kGap : 0);
    };
    const auto box = [&] { return Box{kMargin, all.height, kWidth - 2 * kMargin, 0}; };
    const bool one_node = std::all_of(packages_.begin(), packages_.end(),
                                      [](const PackagePart& package) { return package.nodes.size() <= 1; });
    below(in_columns(box(), packages_.size(), one_node && packages_.size() > 1 ? 2 : 1,
                     [&](std::size_t i, const Box& place) { return package(packages_[i], place); }));
    below(elsewhere(box()));
    below(links(box()));
    const double height = all.height + kMargin - kGap;
    return svg_picture(kWidth, height, kStyle, all.svg);
  }

 private:
  Drawn head() const {
    const auto room = static_cast<std::size_t>((kWidth - 2 * kMargin) / kCharacterWidth);
    return {svg_text(kMargin, 50, "title", topology_.host.empty() ? "this host" : topology_.host) +
                svg_text(kMargin, 74, "soft", shortened(model_text(topology_), room)) +
                svg_text(kMargin, 93, "soft", machine_text(topology_)) +
                svg_text(kMargin, 112, "soft", shortened("this process " + process_text(topology_), room)),
            132};
  }

  // Returns the rank that has the core; -1: no rank has it, or several have it.
  int rank_of(const std::vector<int>& core) const {
    int owner = -1;
    for (std::size_t rank = 0; rank < ranks_.cores.size(); ++rank) {
      const std::vector<int>& own = ranks_.cores[rank];
      const bool has = std::any_of(core.begin(), core.end(),
                                   [&](int thread) { return std::binary_search(own.begin(), own.end(), thread); });
      if (has && owner >= 0) return -1;
      if (has) owner = static_cast<int>(rank);
    }
    return owner;
  }

  std::string cell(const std::vector<int>& core, const Box& box) const {
    const bool allowed = std::any_of(core.begin(), core.end(), [&](int each) { return is_allowed(topology_, each); });
    const int rank = rank_of(core);
    const double middle = box.x + box.width / 2;
    std::string title = fmt::format("core of hardware threads {}", format_list(core));
    if (!allowed) title += ", not allowed to this process";
    if (rank >= 0) title += fmt::format(", of rank {}", rank);
    const std::string look = !allowed ? "forbidden" : rank >= 0 ? colour(rank) : "cell";
    std::string svg = svg_rectangle(box, 6, look, title);
    svg += svg_text(middle, box.y + (rank < 0 ? 20 : 15), "number middle", fmt::format("{}", core.front()));
    if (rank >= 0) svg += svg_text(middle, box.y + 27, "rank middle", fmt::format("rank {}", rank));
    return svg;
  }

  Drawn group(const CoreGroup& group, const Box& box) const {
    const double room = box.width - 2 * kPad + kCellGap;
    const auto columns = static_cast<std::size_t>(std::max(1.0, room / (kCellWidth + kCellGap)));
    Drawn cells;
    for (std::size_t i = 0; i < group.cores.size(); ++i) {
      const double x = box.x + kPad + static_cast<double>(i % columns) * (kCellWidth + kCellGap);
      const double y = box.y + kHead + static_cast<double>(i / columns) * (kCellHeight + kCellGap);
      cells.svg += cell(group.cores[i], {x, y, kCellWidth, kCellHeight});
      cells.height = y + kCellHeight - box.y - kHead;
    }
    return framed(box, "group", group.cache == nullptr ? "cores" : cache_text(*group.cache),
                  near_caches_text(topology_, group), cells);
  }

  static std::string device(const DeviceLine& device, const Box& box) {
    struct Look {
      const char* classes;
      const char* tag;
    };
    constexpr Look kLooks[] = {{"gpu", "GPU"}, {"rdma", "RDMA"}, {"interface", "NET"}};
    const Look& look = kLooks[static_cast<std::size_t>(device.kind)];
    return svg_rectangle(box, 7, device.usable ? "device" : "device off", device.name + ": " + device.text) +
           svg_rectangle({box.x + 6, box.y + 5, 46, box.height - 10}, 5, look.classes) +
           svg_text(box.x + 29, box.y + 18, "tag middle", look.tag) +
           svg_pair(box.x + 62, box.y + 19, device.name, device.text, box.width - 70);
  }

  Drawn devices_near(int number, const Box& box) const {
    Drawn all;
    for (const DeviceLine& each : devices_) {
      if (each.node != number) continue;
      all.svg += device(each, {box.x, box.y + all.height, box.width, kDeviceHeight});
      all.height += kDeviceHeight + kCellGap;
    }
    all.height = std::max(0.0, all.height - kCellGap);
    return all;
  }

  Drawn node(const NodePart& node, const Box& box) const {
    Box inner{box.x + kPad, box.y + kHead, box.width - 2 * kPad, 0};
    const std::size_t columns = node.groups.size() > 1 ? 2 : 1;
    Drawn all = in_columns(inner, node.groups.size(), columns,
                           [&](std::size_t i, const Box& place) { return group(node.groups[i], place); });
    inner.y += all.height + (all.height > 0 ? kGap : 0);
    const Drawn near = devices_near(node.number, inner);
    all.svg += near.svg;
    if (near.height > 0) all.height += near.height + (all.height > 0 ? kGap : 0);
    const std::string memory = node.node == nullptr ? ""
                                                    : fmt::format("{}, {} free", size_text(node.node->bytes),
                                                                  size_text(node.node->free_bytes));
    return framed(box, "node", fmt::format("NUMA node {}", node.number), memory, all);
  }

  Drawn package(const PackagePart& package, const Box& box) const {
    const Box inner{box.x + kPad, box.y + kHead, box.width - 2 * kPad, 0};
    const Drawn nodes = in_columns(inner, package.nodes.size(), package.nodes.size() > 1 ? 2 : 1,
                                   [&](std::size_t i, const Box& place) { return node(package.nodes[i], place); });
    return framed(box, "package",
                  package.number < 0 ? "memory without cores" : fmt::format("package {}", package.number), "", nodes);
  }

  Drawn elsewhere(const Box& box) const {
    const Box inner{box.x + kPad, box.y + kHead, box.width - 2 * kPad, 0};
    const Drawn devices = devices_near(-1, inner);
    if (devices.height == 0) return {};
    return framed(box, "package", "near no NUMA node", "", devices);
  }

  // Draws the matrix of ranks, and beside it the meaning of its colours.
  Drawn links(const Box& box) const {
    const RankLinks& links = ranks_.links;
    if (links.ranks() < 2 || links.ranks() > kLargestMatrix) return {};
    constexpr double kSide = 22;
    const double left = box.x + kPad + 24;
    const double top = box.y + kHead + 20;
    Drawn all;
    for (int rank = 0; rank < links.ranks(); ++rank) {
      const double at = kSide * rank;
      all.svg += svg_text(left + at + 10, top - 7, "soft number middle", std::to_string(rank));
      all.svg += svg_text(left - 14, top + at + 15, "soft number middle", std::to_string(rank));
      for (int peer = 0; peer < links.ranks(); ++peer) {
        const int number = links.class_of[static_cast<std::size_t>(rank * links.ranks() + peer)];
        all.svg += svg_rectangle({left + kSide * peer, top + at, kSide - 2, kSide - 2}, 4,
                                 number < 0 ? "forbidden" : colour(number));
      }
    }
    const double legend = left + kSide * links.ranks() + 24;
    for (std::size_t i = 0; i < links.classes.size(); ++i) {
      const LinkClass& each = links.classes[i];
      const double y = top + 40 * static_cast<double>(i);
      all.svg += svg_rectangle({legend, y, kSide - 2, kSide - 2}, 4, colour(static_cast<int>(i)));
      all.svg += svg_text(legend + 30, y + 11, "head", each.transport);
      const auto room = static_cast<std::size_t>((box.x + box.width - legend - 40) / kCharacterWidth);
      all.svg += svg_text(legend + 30, y + 27, "soft", shortened(each.refused, room));
    }
    all.height = 20 + std::max(kSide * links.ranks(), 40 * static_cast<double>(links.classes.size()));
    return framed(box, "package", "links of ranks", "row to column", all);
  }

  const Topology& topology_;
  const RanksShown& ranks_;
  std::vector<PackagePart> packages_;
  std::vector<std::string> hidden_;
  std::vector<DeviceLine> devices_;
};

}  // namespace

std::string topology_svg(const Topology& topology, const RanksShown& ranks) { return Picture(topology, ranks).draw(); }

}  // namespace wreath
