// A program in C++ outside the tree, in which all ranks get the sum.
#include <cstdio>
#include <vector>
#include <wreath/wreath.hpp>

int main() {
  auto communicator = wreath::Communicator::create_from_environment().value();
  std::vector<float> values(4, 1);
  communicator.all_reduce(std::span(values)).value();
  std::printf("C++: %g of %d\n", values[3], communicator.ranks());
  try {
    communicator.broadcast(std::span(values), -1).value();
  } catch (const wreath::Exception& mistake) {  // thrown by the library
    return mistake.error().code == wreath::ErrorCode::InvalidArgument ? 0 : 1;
  }
  return 1;
}
