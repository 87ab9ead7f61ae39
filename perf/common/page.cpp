// Style sheet and frame of a page.
#include "perf/common/page.hpp"

#include <fmt/format.h>

#include "perf/common/plot.hpp"
#include "src/base/markup.hpp"

namespace wreath::perf {
namespace {

constexpr std::string_view kStyle = R"(<style>
:root { color-scheme: light dark; --page: #fbfaf8; --card: #ffffff; --ink: #1d2530; --soft: #667085; --rule: #e6e4df;
  --c0: #2463c4; --c1: #d9730d; --c2: #1a8f6a; --c3: #b0338e; --c4: #6d4bc3; --c5: #8a6d00; --limit: #98a1ae;
  --bad: #c0262d; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1c2027; --ink: #e7eaee; --soft: #98a2b1;
  --rule: #2d333d; --c0: #74a8ff; --c1: #ffb066; --c2: #5fd3ab; --c3: #f08ad2; --c4: #b39dff; --c5: #e3c64c;
  --limit: #6f7a89; --bad: #ff7b80; } }
* { box-sizing: border-box; }
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
svg { display: block; width: 100%; height: auto; font-family: inherit; }
svg text { fill: var(--ink); }
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
</style>
)";

}  // namespace

std::string page(std::string_view title, std::string_view heading, std::string_view about, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n{}</head>\n<body>\n"
      "<main>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n{}</main>\n</body>\n</html>\n",
      escape_markup(title), kStyle, escape_markup(heading), about, body);
}

}  // namespace wreath::perf
