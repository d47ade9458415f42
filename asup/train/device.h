// Where a worker computes, and how exactly. Functions only; used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "asup/base/error.h"
#include "asup/collective/communicator.h"
#include "asup/net/job.h"
#include "asup/train/config.h"

namespace asup::train {

// Throws BadInput where the setting `device` is none, or names a GPU that this process does not
// have.
void check_device(const std::string& setting);

// The worker's place among those of its host, counted from 0.
int place_on_host(const Job& job);

// The device for the setting: workers of a host take its GPUs in turn. Throws BadInput as
// check_device() does.
torch::Device choose_device(const std::string& setting, int place_on_host);

// The same for a host that has so many GPUs.
torch::Device choose_device(const std::string& setting, int place_on_host, int gpus);

// So that a run repeats its bits: algorithms of convolutions are fixed, not measured. For the whole
// process.
void set_arithmetic(const TrainConfig& config);

// Of all workers, each device once, in words: "cpu, cuda:0". Collective.
std::string devices_in_words(Communicator& workers, const torch::Device& own);

// The most that tensors have taken there at once, in this process; 0 on the CPU.
std::uint64_t peak_device_memory(const torch::Device& device);

// From now on.
void forget_peak_device_memory(const torch::Device& device);

// What to do where a GPU has not enough memory.
std::string lack_of_memory(const c10::OutOfMemoryError& error);

// What `action` returns; throws Error that says so where there is not enough for it.
template <typename Action>
auto explain_lack_of_memory(const Action& action) {
  try {
    return action();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(lack_of_memory(error));
  }
}

}  // namespace asup::train
