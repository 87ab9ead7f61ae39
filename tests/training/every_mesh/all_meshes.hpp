// Makes every mesh of 2, 4 and 8 ranks from the axes and the values that each axis can have.
#pragma once

#include <string>
#include <vector>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

struct NamedMesh {
  std::string name;  // "dp2 x pp2 zb_h1 x tp2 sp zero 1"
  TrainOptions options;
};

// Returns all products of the axes. The axes are data parallelism, a pipeline of every schedule, context parallelism as
// ring and all-to-all, and tensor parallelism with and without sequence parallelism. Where there are replicas (of data
// or context parallelism), each product exists with ZeRO 0 to 3. A mesh that divides the model into more stages than
// `base` has layers gets one layer a stage.
std::vector<NamedMesh> all_meshes(const TrainOptions& base);

}  // namespace wreath::gpt::test
