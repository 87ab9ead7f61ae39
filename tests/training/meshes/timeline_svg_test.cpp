// The picture shows a pipeline's timelines.
#include "examples/train_gpt/run/timeline_svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "training/pipeline/verify.hpp"

namespace wreath::gpt {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TimelineSvg, ShowsEveryActionOnceAndTheIdleShares) {
  const training::PipelineSchedule schedule = training::make_schedule("zb_h1", {4, 1, 8}).value();
  const training::SimulatedPipeline unit = training::simulate(schedule, {}).value();
  const training::SimulatedPipeline timed = training::simulate(schedule, {2'000'000, 2'000'000, 2'000'000, 0}).value();
  const TimelinePanel panels[] = {{schedule.name, false, unit.timelines}, {schedule.name, true, timed.timelines}};
  const std::string svg = timeline_svg(panels);
  EXPECT_TRUE(svg.starts_with("<svg xmlns"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count_of(svg, "<title>"), 2u * 4 * 8 * 3);
  EXPECT_EQ(count_of(svg, "<rect"), 2u * 4 * 8 * 3 + 2 * 4 + 4 + 1);
  EXPECT_EQ(count_of(svg, "<text"), count_of(svg, "</text>"));
  EXPECT_THAT(svg, HasSubstr("zb_h1, computed: 11.1% idle"));  // 3 / (3 x 8 + 3)
  EXPECT_THAT(svg, HasSubstr("zb_h1, measured: 11.1% idle"));
  EXPECT_THAT(svg, HasSubstr("<title>rank 3: backward by weights of micro-batch 7, chunk 0: 2 ms from "));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
}

TEST(TimelineSvg, NothingToShowIsAPictureToo) {
  const std::vector<training::Timeline> empty(2);
  const TimelinePanel panels[] = {{"1f1b", true, empty}};
  EXPECT_THAT(timeline_svg(panels), HasSubstr("1f1b, measured: 100.0% idle"));
  EXPECT_EQ(count_of(timeline_svg({}), "<rect"), 5u);
}

}  // namespace
}  // namespace wreath::gpt
