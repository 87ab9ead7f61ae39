// All loops written by hand.
#pragma once

#include "kernels/straight/point_to_point.hpp"
#include "kernels/straight/ring.hpp"
#include "kernels/straight/two_shot.hpp"
