// The style sheet and the frame of a page.
#include "src/page/page.hpp"

#include <fmt/format.h>

#include <array>

#include "src/page/markup.hpp"

namespace wreath {
namespace {

struct Colour {
  std::string_view name;
  std::string_view light;
  std::string_view dark;
};
constexpr std::array kColours{
    Colour{"page", "#fbfaf8", "#14171c"},  Colour{"card", "#ffffff", "#1c2027"}, Colour{"ink", "#1d2530", "#e7eaee"},
    Colour{"soft", "#667085", "#98a2b1"},  Colour{"rule", "#e6e4df", "#2d333d"}, Colour{"c0", "#2463c4", "#74a8ff"},
    Colour{"c1", "#d9730d", "#ffb066"},    Colour{"c2", "#1a8f6a", "#5fd3ab"},   Colour{"c3", "#b0338e", "#f08ad2"},
    Colour{"c4", "#6d4bc3", "#b39dff"},    Colour{"c5", "#8a6d00", "#e3c64c"},   Colour{"c6", "#0f7d99", "#6fd0e6"},
    Colour{"c7", "#c0262d", "#ff7b80"},    Colour{"f0", "#cfe0f8", "#23406b"},   Colour{"f1", "#fbe0c6", "#6b3d12"},
    Colour{"f2", "#c9ecdf", "#14513c"},    Colour{"f3", "#f4d3ea", "#5f2350"},   Colour{"f4", "#ded5f5", "#3f3168"},
    Colour{"f5", "#f1e6b8", "#554709"},    Colour{"f6", "#cdeaf2", "#124b5a"},   Colour{"f7", "#f6d0d2", "#6b2327"},
    Colour{"limit", "#98a1ae", "#6f7a89"}, Colour{"bad", "#c0262d", "#ff7b80"},
};

constexpr std::string_view kPictures =
    R"(svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-size: 13px; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; } svg .page { fill: var(--page); }
svg .head { font-weight: 620; } svg .title { font-weight: 650; } svg .soft { fill: var(--soft); font-size: 12.5px; }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
)";

constexpr std::string_view kStyle = R"(* { box-sizing: border-box; }
body { margin: 0; padding: 40px 24px 64px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1360px; margin: 0 auto; }
h1 { margin: 0; font-size: 26px; font-weight: 650; letter-spacing: -0.01em; }
.about { margin: 4px 0 28px; color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 14px; margin: 0 0 20px; padding: 0; }
.figures div, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 14px 18px; }
.figures div { flex: 1 1 180px; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures dd { margin: 2px 0 0; font-size: 24px; font-weight: 620; font-variant-numeric: tabular-nums; }
.figures small { font-size: 13px; font-weight: 400; color: var(--soft); }
.bad { color: var(--bad); } .good { color: var(--c2); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); gap: 20px; }
svg { display: block; width: 100%; height: auto; }
h2 { margin: 28px 0 8px; font-size: 18px; font-weight: 620; }
svg .title { font-size: 17px; font-weight: 620; }
svg .unit, svg .tick, svg .key { fill: var(--soft); font-size: 12.5px; font-weight: 400;
  font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); }
svg .line { fill: none; stroke: var(--s); stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
svg .dot { fill: var(--card); stroke: var(--s); stroke-width: 2; } svg .halo { fill: transparent; }
svg .point:hover .halo { fill: var(--s); opacity: 0.2; } svg .point:hover .dot { fill: var(--s); }
.s0 { --s: var(--c0); } .s1 { --s: var(--c1); } .s2 { --s: var(--c2); }
.s3 { --s: var(--c3); } .s4 { --s: var(--c4); } .s5 { --s: var(--c5); }
svg .spread { stroke: var(--s); stroke-width: 6; stroke-linecap: round; opacity: 0.22; }
svg .beside .line { stroke-dasharray: 7 5; stroke-width: 1.8; opacity: 0.75; } svg .beside .dot { stroke-width: 1.5; }
svg .beside .spread { stroke-width: 2; }
.limit { --s: var(--limit); } svg .limit .line { stroke-dasharray: 2 6; } svg .limit .dot { display: none; }
.scroll { overflow-x: auto; margin-top: 20px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px;
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th, td { text-align: right; padding: 5px 8px; }
th.text, td.text { text-align: left; } thead tr:last-child th { border-bottom: 1px solid var(--rule); }
th.group { text-align: center; } tbody tr:hover { background: var(--page); }
details { margin-top: 20px; color: var(--soft); } summary { cursor: pointer; }
pre { overflow-x: auto; color: var(--ink); font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
)";

// Returns the colours as variables, for light and dark screens.
std::string variables() {
  std::string light;
  std::string dark;
  for (const Colour& colour : kColours) {
    light += fmt::format("--{}: {}; ", colour.name, colour.light);
    dark += fmt::format("--{}: {}; ", colour.name, colour.dark);
  }
  return fmt::format(
      ":root {{ color-scheme: light dark; {}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {}}} }}\n", light,
      dark);
}

}  // namespace

std::string picture_style(std::string_view own) {
  const auto in_colours = [&](std::string_view Colour::*scheme) {
    std::string rules = std::string(kPictures) + std::string(own);
    for (const Colour& colour : kColours) {
      const std::string name = fmt::format("var(--{})", colour.name);
      for (std::size_t at = rules.find(name); at != std::string::npos; at = rules.find(name, at)) {
        rules.replace(at, name.size(), colour.*scheme);
      }
    }
    return rules;
  };
  return fmt::format("{}@media (prefers-color-scheme: dark) {{\n{}}}\n", in_colours(&Colour::light),
                     in_colours(&Colour::dark));
}

// Writes colours as variables, which browsers know.
std::string page(std::string_view title, std::string_view heading, std::string_view about, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>\n{}{}{}</style>\n</head>\n<body>\n"
      "<main>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n{}</main>\n</body>\n</html>\n",
      escape_markup(title), variables(), kPictures, kStyle, escape_markup(heading), about, body);
}

}  // namespace wreath
