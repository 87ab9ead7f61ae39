// Writes the report as CSV: one line for each size, with plain numbers.
#include <fmt/format.h>

#include "perf/common/report.hpp"

namespace wreath::perf {
namespace {

std::string measured(const std::optional<Measurement>& maybe) {
  if (!maybe) return ",,,,";
  const Measurement& m = *maybe;
  return fmt::format(",{},{},{},{}", m.time_us, m.algorithm_gbps, m.bus_gbps, m.wrong ? std::to_string(*m.wrong) : "");
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string text =
      "size,count,type,redop,root,ranks,out_of_place_time_us,out_of_place_algbw_gbps,out_of_place_busbw_gbps,"
      "out_of_place_wrong,in_place_time_us,in_place_algbw_gbps,in_place_busbw_gbps,in_place_wrong,limit_us,transport,"
      "plan\n";
  for (const ReportRow& row : report.rows) {
    text += fmt::format("{},{},{},{},{},{}", row.work.bytes, row.work.count, table_name(row.work.kind.dtype),
                        shown_op(report, row.work), shown_root(report, row.work), report.world);
    text += measured(row.out_of_place) + measured(row.in_place);
    text += fmt::format(",{},{},\"{}\"\n", row.limit_us ? fmt::format("{}", *row.limit_us) : "", report.transport,
                        row.plan);
  }
  return text;
}

}  // namespace wreath::perf
