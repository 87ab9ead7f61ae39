// Reads schedules that tests write as text.
#pragma once

#include <string_view>

#include "training/pipeline/schedule.hpp"

namespace wreath::training {

// Parses the text of to_text(). The error is InvalidArgument, which names line and word. The result is well-formed, but
// not yet proved.
Result<PipelineSchedule> parse_schedule(std::string_view text);

}  // namespace wreath::training
