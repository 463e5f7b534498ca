#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sensor_msgs::msg {
struct Image {
  using ConstSharedPtr = std::shared_ptr<const Image>;
  std::uint32_t height = 0, width = 0;
  std::string encoding;
  std::uint32_t step = 0;
  std::vector<std::uint8_t> data;

  // With padding at the end of each line.
  static Image Example() {
    return {224, 224, "rgb8", 700, std::vector<std::uint8_t>(224 * 700, 128)};
  }
};
}  // namespace sensor_msgs::msg
