// SPDX-License-Identifier: Apache-2.0
// What a device did in the recorded steps: by kernel class (model/kernel_class.h), by kernel, how much of its
// communication was hidden behind compute, and how far the host was ahead of it. Pure functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/group_time.h"
#include "analyzer/model/kernel_class.h"

namespace gpuwatch::attribute {

// What an operation of a device is; nullopt for records that are no work (synchronizations).
std::optional<model::KernelClass> class_of(const model::Run& run, const model::DeviceOp& op);

// The class of each operation, kNoGroup for what is no work. Names are read once.
std::vector<uint16_t> classes_of(const model::Run& run, const model::Device& device);

struct ClassTime {
  model::KernelClass kernel_class;
  GroupTime time;
};

struct KernelTime {
  std::string_view name;
  model::KernelClass kernel_class;
  model::Ns ns = 0;
  size_t count = 0;
};

struct Communication {
  model::Ns ns = 0;          // at least one collective ran
  model::Ns exposed_ns = 0;  // and no other kernel
  size_t count = 0;
  double hidden_share() const { return ns > 0 ? 1 - double(exposed_ns) / double(ns) : 0; }
};

struct DeviceWork {
  model::Ns ns = 0;                 // sum of all operations; more than wall time where streams overlap
  std::vector<ClassTime> classes;   // most time first
  std::vector<KernelTime> kernels;  // most time first
  std::optional<Communication> communication;
};

// Of a row with a device; empty for others.
DeviceWork device_work(const model::Run& run, const RankAttribution& row);

// nullopt without a collective on the row's device.
std::optional<Communication> communication(const model::Run& run, const RankAttribution& row);

// How far the host is ahead: from the call that launches an operation to its start, and launches before it
// that have not started then.
struct LaunchQueue {
  double median_ns = 0;
  double median_depth = 0;
  double empty_share = 0;  // of launches, that found nothing waiting to start: the GPU was waiting for them
  size_t launches = 0;
};

// nullopt where no operation in the recorded steps is matched to its launch.
std::optional<LaunchQueue> launch_queue(const model::Run& run, const RankAttribution& row);

}  // namespace gpuwatch::attribute
