// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/change.h"

#include "analyzer/advise/storage.h"

namespace gpuwatch::advise {
namespace {

bool is_switch(LoaderOption option) {
  return option == LoaderOption::kPersistentWorkers || option == LoaderOption::kInOrder ||
         option == LoaderOption::kPinMemory;
}

// One overload for each kind of change: a new kind that is left out does not compile.
struct Name {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const LoaderChange& change) const { return std::string(option_name(change.option)); }
  std::string operator()(const StorageChange&) const { return "storage"; }
  std::string operator()(const StreamChange& change) const { return change.setting; }
  std::string operator()(const KeptMemoryChange&) const { return "GLIBC_TUNABLES"; }
  std::string operator()(const SplitChange&) const { return "parts"; }
  std::string operator()(const NamedChange& change) const { return change.setting; }
};

struct Value {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const LoaderChange& change) const {
    if (is_switch(change.option)) return change.value ? "True" : "False";
    return std::to_string(change.value);
  }
  std::string operator()(const StorageChange& change) const { return change.value; }
  std::string operator()(const StreamChange& change) const { return change.value; }
  std::string operator()(const KeptMemoryChange& change) const { return change.tunables; }
  std::string operator()(const SplitChange&) const { return "one for each worker"; }
  std::string operator()(const NamedChange& change) const { return change.value; }
};

struct Apply {
  predict::LoaderSetting& setting;

  bool operator()(std::monostate) const { return false; }
  bool operator()(const StreamChange&) const { return false; }
  bool operator()(const NamedChange&) const { return false; }
  bool operator()(const KeptMemoryChange& change) const {
    setting.cpu_factor *= change.cpu_factor;
    return true;
  }
  bool operator()(const SplitChange&) const {
    setting.is_split = true;
    return true;
  }
  bool operator()(const StorageChange&) const {
    setting.io_factor = 1 / kFasterStorage;
    return true;
  }
  bool operator()(const LoaderChange& change) const {
    switch (change.option) {
      case LoaderOption::kNumWorkers:
        setting.workers = change.value;
        return true;
      case LoaderOption::kPrefetchFactor:
        setting.prefetch_factor = change.value;
        return true;
      case LoaderOption::kPersistentWorkers:
        setting.persistent = change.value != 0;
        return true;
      case LoaderOption::kInOrder:
        setting.in_order = change.value != 0;
        return true;
      case LoaderOption::kPinMemory:
        return false;
    }
    return false;
  }
};

}  // namespace

std::string_view option_name(LoaderOption option) {
  switch (option) {
    case LoaderOption::kNumWorkers:
      return "num_workers";
    case LoaderOption::kPrefetchFactor:
      return "prefetch_factor";
    case LoaderOption::kPersistentWorkers:
      return "persistent_workers";
    case LoaderOption::kInOrder:
      return "in_order";
    case LoaderOption::kPinMemory:
      return "pin_memory";
  }
  return "";
}

std::string setting_name(const Change& change) {
  return std::visit(Name{}, change);
}

std::string setting_value(const Change& change) {
  return std::visit(Value{}, change);
}

bool apply(const Change& change, predict::LoaderSetting& setting) {
  return std::visit(Apply{setting}, change);
}

}  // namespace gpuwatch::advise
