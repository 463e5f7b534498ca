// Devices and models of lagoon.h as C++ objects, for the examples of this folder: copy and change
// them.
#pragma once

#include <lagoon/lagoon.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

inline void Require(lagoon_code code, const lagoon_error& error) {
  if (code != LAGOON_OK) throw std::runtime_error(error.message);
}

/// The cores of this machine with one scheduler. Any thread. It outlives its models.
class Device {
 public:
  Device() {
    lagoon_error error = {};
    Require(lagoon_device_open(nullptr, &device_, &error), error);
  }
  ~Device() { lagoon_device_close(device_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  lagoon_device* get() const { return device_; }

 private:
  lagoon_device* device_ = nullptr;
};

/// A model with memory for its inputs, which is run again and again. One thread at a time. Errors
/// are exceptions that name the model or the tensor.
class Model {
 public:
  /// Open sizes of the inputs are 1.
  Model(const Device& device, const std::string& path, lagoon_class job_class) {
    lagoon_error error = {};
    lagoon_model_options options = LAGOON_MODEL_OPTIONS_INIT;
    options.job_class = job_class;
    Require(lagoon_model_load_file(device.get(), path.c_str(), &options, &model_, &error), error);
    try {
      Prepare();
    } catch (...) {
      Free();
      throw;
    }
  }
  ~Model() { Free(); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// The memory of an input, whose bytes are 0 at first. Write to it between two runs.
  std::vector<unsigned char>& input(std::size_t index = 0) { return inputs_.at(index); }

  /// Runs and waits. Allocates nothing. `due_ns`: CLOCK_MONOTONIC, by when the run must have ended.
  /// LAGOON_DEADLINE_EXCEEDED: it did not, and result() says why.
  lagoon_code Run(std::int64_t due_ns = LAGOON_NEVER) { return lagoon_run_sync(run_, due_ns); }

  lagoon_result result() const {
    lagoon_result result = LAGOON_RESULT_INIT;
    lagoon_run_result(run_, &result);
    return result;
  }
  /// The values of an output of floats after a run that returned LAGOON_OK. Valid until the next.
  const float* output(std::size_t* count, std::size_t index = 0) const {
    std::size_t bytes = 0;
    const void* const data = lagoon_run_made_output(run_, index, &bytes);
    *count = bytes / sizeof(float);
    return static_cast<const float*>(data);
  }
  std::string error() const {
    lagoon_error error = {};
    lagoon_run_error(run_, &error);
    return error.message;
  }

 private:
  static std::size_t SizeOf(lagoon_type type) {
    switch (type) {
      case LAGOON_UINT8:
      case LAGOON_INT8:
      case LAGOON_BOOL:
        return 1;
      case LAGOON_UINT16:
      case LAGOON_INT16:
      case LAGOON_FLOAT16:
      case LAGOON_BFLOAT16:
        return 2;
      case LAGOON_INT64:
      case LAGOON_UINT64:
      case LAGOON_FLOAT64:
        return 8;
      case LAGOON_STRING:
        return sizeof(lagoon_string);
      default:
        return 4;
    }
  }

  void Prepare() {
    lagoon_error error = {};
    Require(lagoon_run_create(model_, &run_, &error), error);
    inputs_.resize(lagoon_model_input_count(model_));
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      lagoon_tensor_info info = LAGOON_TENSOR_INFO_INIT;
      lagoon_model_input(model_, index, &info);
      std::vector<std::int64_t> dims(info.dims, info.dims + info.rank);
      std::size_t bytes = SizeOf(info.type);
      for (std::int64_t& size : dims) {
        if (size < 0) size = 1;
        bytes *= static_cast<std::size_t>(size);
      }
      inputs_[index].resize(bytes);
      const lagoon_tensor tensor = {info.type, info.rank, dims.data(), inputs_[index].data(),
                                    bytes};
      const lagoon_code code = lagoon_run_input(run_, index, &tensor);
      lagoon_run_error(run_, &error);
      Require(code, error);
    }
    Require(lagoon_run_prepare(run_, &error), error);
  }
  void Free() {
    lagoon_run_free(run_);
    lagoon_model_free(model_);
  }

  lagoon_model* model_ = nullptr;
  lagoon_run* run_ = nullptr;
  std::vector<std::vector<unsigned char>> inputs_;
};

}  // namespace example
